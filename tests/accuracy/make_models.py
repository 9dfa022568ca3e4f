"""Makes the small random models of the accuracy tests.

    python3 make_models.py            rewrites fixtures/models/ (one Hugging Face folder a family, committed)
    python3 make_models.py --gguf DIR writes one GGUF file a tensor type and family into DIR (the tests do this live)

Shapes are chosen to hurt: head sizes 8, 16, 20, 24 and 40, widths and MLP sizes that are no multiple of 32, one KV head
and several, biases, norms of q and k, a sliding window and rope scaling that matter within 150 tokens. Weights are
scaled so that logits have a standard deviation of about 2 and attention is far from uniform.
"""

import argparse
import json
import pathlib
import shutil

import numpy as np

HERE = pathlib.Path(__file__).parent
SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
MERGES = [("t", "h"), ("h", "e"), ("i", "n"), ("Ġ", "t"), ("e", "r"), ("o", "n"), ("a", "n"), ("Ġt", "he"), ("Ġ", "a")]
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)

# name -> what sets the family apart. `config` is merged over the common fields and uses the spelling of real files.
FAMILIES = {
    "llama2": dict(
        dtype="F16",
        architecture="LlamaForCausalLM",
        tied=False,
        config=dict(
            model_type="llama",
            hidden_size=60,
            num_attention_heads=3,
            intermediate_size=152,
            vocab_size=263,
            num_hidden_layers=2,
            rms_norm_eps=1e-5,
            rope_scaling=None,
            pretraining_tp=1,
        ),
    ),
    "llama3": dict(
        dtype="BF16",
        architecture="LlamaForCausalLM",
        tied=True,
        shards=3,
        config=dict(
            model_type="llama",
            hidden_size=64,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=16,
            intermediate_size=120,
            vocab_size=271,
            num_hidden_layers=3,
            rms_norm_eps=1e-5,
            rope_theta=500000.0,
            rope_scaling=dict(
                factor=8.0,
                high_freq_factor=4.0,
                low_freq_factor=1.0,
                rope_type="llama3",
                original_max_position_embeddings=64,
            ),
            eos_token_id=[0, 2],
            attention_bias=False,
            mlp_bias=False,
        ),
    ),
    "smollm2": dict(
        dtype="BF16",
        architecture="LlamaForCausalLM",
        tied=True,
        config=dict(
            model_type="llama",
            hidden_size=72,
            num_attention_heads=9,
            num_key_value_heads=3,
            intermediate_size=104,
            vocab_size=268,
            num_hidden_layers=2,
            rms_norm_eps=1e-5,
            rope_theta=100000,
            rope_scaling=None,
            rope_interleaved=False,
            is_llama_config=True,
        ),
    ),
    "mistral": dict(
        dtype="BF16",
        architecture="MistralForCausalLM",
        tied=False,
        shards=2,
        config=dict(
            model_type="mistral",
            hidden_size=72,
            num_attention_heads=3,
            num_key_value_heads=1,
            head_dim=40,
            intermediate_size=104,
            vocab_size=268,
            num_hidden_layers=2,
            rms_norm_eps=1e-5,
            rope_theta=10000.0,
            sliding_window=70,
        ),
    ),
    # use_sliding_window is false: the window must be ignored, as in the published Qwen2 models.
    "qwen2": dict(
        dtype="F32",
        architecture="Qwen2ForCausalLM",
        tied=True,
        config=dict(
            model_type="qwen2",
            hidden_size=56,
            num_attention_heads=7,
            num_key_value_heads=1,
            intermediate_size=104,
            vocab_size=268,
            num_hidden_layers=2,
            rms_norm_eps=1e-6,
            rope_theta=1000000.0,
            use_sliding_window=False,
            sliding_window=64,
            max_window_layers=1,
        ),
    ),
    # Newer spelling: rope_parameters, dtype, layer_types.
    "qwen3": dict(
        dtype="BF16",
        norm_dtype="F32",
        architecture="Qwen3ForCausalLM",
        tied=False,
        config=dict(
            model_type="qwen3",
            hidden_size=72,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=24,
            intermediate_size=88,
            vocab_size=268,
            num_hidden_layers=2,
            rms_norm_eps=1e-6,
            rope_parameters=dict(rope_type="default", rope_theta=1000000),
            attention_bias=False,
            use_sliding_window=False,
            sliding_window=None,
            max_window_layers=2,
            layer_types=["full_attention", "full_attention"],
        ),
    ),
}
# The same weights under another configuration: name -> (family, changes to config.json). Not stored; see write_variant.
VARIANTS = {
    "llama2-linear": ("llama2", dict(rope_scaling=dict(type="linear", factor=4.0))),
    "mistral-nowindow": ("mistral", dict(sliding_window=None)),
    "qwen2-yarn": (
        "qwen2",
        dict(rope_theta=10000.0, rope_scaling=dict(type="yarn", factor=4.0, original_max_position_embeddings=64)),
    ),
}
COMMON = dict(
    hidden_act="silu",
    initializer_range=0.02,
    max_position_embeddings=512,
    bos_token_id=1,
    eos_token_id=2,
    attention_dropout=0.0,
    use_cache=True,
)


# ---------------------------------------------------------------------------------------------------------------------
# Weights


def dimensions(config):
    """(hidden, query rows, key rows, head size, mlp size, layers, vocabulary) of a config.json dictionary."""
    heads = config["num_attention_heads"]
    head = config.get("head_dim", config["hidden_size"] // heads)
    kv = config.get("num_key_value_heads", heads)
    return (
        config["hidden_size"],
        heads * head,
        kv * head,
        head,
        config["intermediate_size"],
        config["num_hidden_layers"],
        config["vocab_size"],
    )


def random_weights(config, tied, rng):
    """Hugging Face names -> float32 arrays."""
    hidden, q_rows, k_rows, head, mlp, layers, vocab = dimensions(config)
    qk_gain = 1.0 if config["model_type"] == "qwen3" else 1.2

    def matrix(rows, cols, gain):
        return (rng.standard_normal((rows, cols)) * gain / np.sqrt(cols)).astype(np.float32)

    def norm(n, scale=1.0):
        return (scale * (1.0 + 0.3 * rng.uniform(-1.0, 1.0, n))).astype(np.float32)

    w = {"model.embed_tokens.weight": matrix(vocab, hidden, 2.0 if tied else np.sqrt(hidden))}
    for i in range(layers):
        p = f"model.layers.{i}."
        w[p + "input_layernorm.weight"] = norm(hidden)
        w[p + "self_attn.q_proj.weight"] = matrix(q_rows, hidden, qk_gain)
        w[p + "self_attn.k_proj.weight"] = matrix(k_rows, hidden, qk_gain)
        w[p + "self_attn.v_proj.weight"] = matrix(k_rows, hidden, 1.0)
        w[p + "self_attn.o_proj.weight"] = matrix(hidden, q_rows, 1.0)
        if config["model_type"] == "qwen2":
            for part, rows, scale in (("q", q_rows, 0.7), ("k", k_rows, 2.0), ("v", k_rows, 0.3)):
                w[p + f"self_attn.{part}_proj.bias"] = (rng.standard_normal(rows) * scale).astype(np.float32)
        if config["model_type"] == "qwen3":
            w[p + "self_attn.q_norm.weight"] = norm(head, 1.4)
            w[p + "self_attn.k_norm.weight"] = norm(head, 1.4)
        w[p + "post_attention_layernorm.weight"] = norm(hidden)
        w[p + "mlp.gate_proj.weight"] = matrix(mlp, hidden, 1.2)
        w[p + "mlp.up_proj.weight"] = matrix(mlp, hidden, 1.2)
        w[p + "mlp.down_proj.weight"] = matrix(hidden, mlp, 1.2)
    w["model.norm.weight"] = norm(hidden)
    if not tied:
        w["lm_head.weight"] = matrix(vocab, hidden, 2.0)
    return w


# ---------------------------------------------------------------------------------------------------------------------
# Hugging Face folders


def encode(value, dtype):
    """Little-endian bytes of a float32 array as F32, F16 or BF16 (nearest, ties to even)."""
    if dtype == "BF16":
        bits = value.astype("<f4").view("<u4").astype(np.uint64)
        return (((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2")).tobytes()
    return value.astype({"F32": "<f4", "F16": "<f2"}[dtype]).tobytes()


def write_safetensors(path, tensors):
    """tensors: name -> (dtype, float32 array). Offsets ascend in name order; the header is padded to 8 bytes."""
    header, blob = {"__metadata__": {"format": "pt"}}, b""
    for name in sorted(tensors):
        dtype, value = tensors[name]
        raw = encode(value, dtype)
        header[name] = {"dtype": dtype, "shape": list(value.shape), "data_offsets": [len(blob), len(blob) + len(raw)]}
        blob += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + blob)
    return len(blob)


def write_weights(folder, tensors, shards):
    """One model.safetensors, or `shards` files of about equal count and their index."""
    if shards == 1:
        write_safetensors(folder / "model.safetensors", tensors)
        return
    names, weight_map, total = list(tensors), {}, 0
    for s in range(shards):
        part = names[s * len(names) // shards : (s + 1) * len(names) // shards]
        file = f"model-{s + 1:05}-of-{shards:05}.safetensors"
        total += write_safetensors(folder / file, {name: tensors[name] for name in part})
        weight_map.update({name: file for name in part})
    index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(weight_map.items()))}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=1) + "\n")


def byte_alphabet():
    """GPT-2's 256 printable stand-ins, index = byte."""
    keep = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    spare = iter(range(256, 512))
    return [chr(b) if b in keep else chr(next(spare)) for b in range(256)]


def bpe_vocabulary():
    """Tokens of the small byte-level vocabulary in id order: specials, bytes, merges."""
    return SPECIALS + byte_alphabet() + ["".join(pair) for pair in MERGES]


def tokenizer_json(size):
    """A byte-level BPE tokenizer.json with at most `size` tokens."""
    vocabulary = bpe_vocabulary()[:size]
    merges = [pair for pair in MERGES if "".join(pair) in vocabulary]
    added = [
        dict(id=i, content=s, single_word=False, lstrip=False, rstrip=False, normalized=False, special=True)
        for i, s in enumerate(SPECIALS)
    ]
    byte_level = dict(type="ByteLevel", add_prefix_space=False, trim_offsets=True, use_regex=True)
    return dict(
        version="1.0",
        truncation=None,
        padding=None,
        added_tokens=added,
        normalizer=None,
        pre_tokenizer=byte_level,
        post_processor=None,
        decoder=byte_level,
        model=dict(
            type="BPE",
            dropout=None,
            unk_token=None,
            continuing_subword_prefix=None,
            end_of_word_suffix=None,
            fuse_unk=False,
            byte_fallback=False,
            ignore_merges=False,
            vocab={token: i for i, token in enumerate(vocabulary)},
            merges=[list(pair) for pair in merges],
        ),
    )


def write_json(path, value):
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def write_hf(folder, family, rng):
    """Writes one family's folder and returns its path."""
    config = dict(COMMON, **family["config"])
    weights = random_weights(config, family["tied"], rng)
    dtype, norm_dtype = family["dtype"], family.get("norm_dtype", family["dtype"])
    tensors = {n: (norm_dtype if "norm" in n else dtype, v) for n, v in weights.items()}
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    write_weights(folder, tensors, family.get("shards", 1))
    spelling = "dtype" if "rope_parameters" in config else "torch_dtype"
    config[spelling] = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}[dtype]
    config["tie_word_embeddings"] = family["tied"]
    write_json(folder / "config.json", dict(architectures=[family["architecture"]], **dict(sorted(config.items()))))
    write_json(
        folder / "generation_config.json",
        dict(
            bos_token_id=config["bos_token_id"],
            eos_token_id=config["eos_token_id"],
            do_sample=True,
            temperature=0.7,
            top_p=0.9,
            top_k=40,
        ),
    )
    (folder / "tokenizer.json").write_text(
        json.dumps(tokenizer_json(config["vocab_size"]), ensure_ascii=False, separators=(",", ":")), encoding="utf-8"
    )
    write_json(
        folder / "tokenizer_config.json",
        dict(
            bos_token="<|im_start|>",
            eos_token="<|im_end|>",
            add_bos_token=False,
            clean_up_tokenization_spaces=False,
            chat_template=CHAT_TEMPLATE,
            tokenizer_class="PreTrainedTokenizerFast",
            model_max_length=512,
        ),
    )


def write_variant(name, folder):
    """Writes the folder of a variant: links to its family's files and a config.json of its own."""
    family, changes = VARIANTS[name]
    source = HERE / "fixtures" / "models" / family
    folder.mkdir(parents=True)
    for file in source.iterdir():
        if file.name != "config.json":
            (folder / file.name).symlink_to(file)
    write_json(folder / "config.json", dict(json.loads((source / "config.json").read_text()), **changes))


# ---------------------------------------------------------------------------------------------------------------------
# GGUF files

GGUF_SMALL = dict(
    hidden_size=64,
    num_attention_heads=4,
    num_key_value_heads=2,
    intermediate_size=160,
    vocab_size=288,
    num_hidden_layers=2,
    rms_norm_eps=1e-5,
    rope_theta=10000.0,
)
# Rows of 256 where a K-quant can be, narrower ones elsewhere (these fall back to Q8_0, as llama.cpp's files do).
GGUF_WIDE = dict(GGUF_SMALL, hidden_size=256, head_dim=16, intermediate_size=64)
# The sizes of the public stories260K: head size 8, MLP 172.
GGUF_STORIES = dict(GGUF_SMALL, num_attention_heads=8, num_key_value_heads=4, intermediate_size=172, vocab_size=512)
# SmolLM2's shape in small: three query heads a KV head, width no multiple of 64.
GGUF_SMOL = dict(GGUF_SMALL, hidden_size=288, num_attention_heads=9, num_key_value_heads=3, intermediate_size=96)


def gguf_models():
    """name -> (architecture, config, tied, matrix type, embedding type, extras)."""
    models = {"f32-stories": ("llama", GGUF_STORIES, True, "F32", "F32", {"spm": True})}
    for t in ("F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"):
        models[t.lower()] = ("llama", GGUF_SMALL, False, t, t, {})
    for t in ("Q4_K", "Q5_K", "Q6_K"):
        models[t.lower()] = ("llama", GGUF_WIDE, False, t, t, {})
    models["q4_1-smollm2"] = ("llama", GGUF_SMOL, True, "Q4_1", "Q8_0", {"pre": "smollm"})
    models["f16-ropefreqs"] = ("llama", dict(GGUF_SMALL, rope_theta=500000.0), True, "F16", "F16", {"factors": True})
    models["f16-linear"] = ("llama", GGUF_SMALL, True, "F16", "F16", {"linear": 4.0})
    models["f16-head256"] = (
        "llama",
        dict(GGUF_SMALL, head_dim=256, num_attention_heads=2, num_key_value_heads=1),
        False,
        "F16",
        "F16",
        {},
    )
    models["bf16-head100"] = (
        "llama",
        dict(GGUF_SMALL, head_dim=100, num_attention_heads=3, num_key_value_heads=3),
        False,
        "BF16",
        "BF16",
        {},
    )
    models["q8_0-qwen2"] = (
        "qwen2",
        dict(GGUF_SMALL, num_attention_heads=8, num_key_value_heads=1),
        True,
        "Q8_0",
        "Q8_0",
        {},
    )
    models["f16-qwen2-yarn"] = ("qwen2", GGUF_SMALL, True, "F16", "F16", {"yarn": 4.0})
    models["q8_0-qwen3"] = ("qwen3", dict(GGUF_SMALL, head_dim=40), False, "Q8_0", "F16", {})
    return models


def random_k_quant(rng, qtype, rows, cols):
    """Random valid K-quant blocks whose values have mean 0 and standard deviation 1 / sqrt(cols): uint8 [rows, bytes].

    The gguf package reads these types but cannot make them.
    """
    import gguf
    from gguf import GGMLQuantizationType as T

    block, size = gguf.GGML_QUANT_SIZES[qtype]
    raw = rng.integers(0, 256, (rows * cols // block, size), dtype=np.uint8)

    def set_half(offset, value):
        jitter = rng.uniform(0.8, 1.2, len(raw))
        raw[:, offset : offset + 2] = (value * jitter).astype("<f2").view(np.uint8).reshape(-1, 2)

    def set_scales(unit):
        if qtype == T.Q6_K:
            set_half(208, unit)
        else:  # the minimum's scale centres the values: quarter bytes go to 15, five-bit ones to 31
            set_half(0, unit)
            set_half(2, unit * (7.5 if qtype == T.Q4_K else 15.5))

    set_scales(0.01)
    spread = gguf.dequantize(raw, qtype).std()
    set_scales(0.01 / spread / np.sqrt(cols))
    return raw.reshape(rows, -1)


def add_tensor(writer, rng, name, value, want):
    """Adds a float32 tensor as type `want`, as Q8_0 or F16 where its rows do not fit that type's blocks."""
    import gguf
    from gguf import GGMLQuantizationType as T

    qtype = T[want]
    if value.ndim == 1:
        qtype = T.F32
    if value.shape[-1] % gguf.GGML_QUANT_SIZES[qtype][0]:
        qtype = T.Q8_0 if value.shape[-1] % 32 == 0 else T.F16
    if qtype in (T.Q4_K, T.Q5_K, T.Q6_K):
        gain = value.std() * np.sqrt(value.shape[-1])
        raw = random_k_quant(rng, qtype, *value.shape)
        if "norm" not in name and abs(gain - 1.0) > 0.15:
            raw = scale_k_quant(raw, qtype, gain)
        writer.add_tensor(name, raw, raw_dtype=qtype)
    elif qtype in (T.F32, T.F16):
        writer.add_tensor(name, value.astype(np.float32 if qtype == T.F32 else np.float16))
    else:
        writer.add_tensor(name, gguf.quantize(value, qtype), raw_dtype=qtype)


def scale_k_quant(raw, qtype, gain):
    """The same blocks with their half-precision scales multiplied by `gain`."""
    import gguf
    from gguf import GGMLQuantizationType as T

    rows = len(raw)
    blocks = raw.reshape(-1, gguf.GGML_QUANT_SIZES[qtype][1]).copy()
    for offset in [208] if qtype == T.Q6_K else [0, 2]:
        half = np.ascontiguousarray(blocks[:, offset : offset + 2]).view("<f2").astype(np.float64) * gain
        blocks[:, offset : offset + 2] = half.astype("<f2").view(np.uint8).reshape(-1, 2)
    return blocks.reshape(rows, -1)


def to_gguf_name(name):
    from float64_forward import GGUF_LAYER_NAMES, GGUF_NAMES

    stem, kind = name.rsplit(".", 1)
    if stem.startswith("model.layers."):
        _, _, i, part = stem.split(".", 3)
        return f"blk.{i}.{ {v: k for k, v in GGUF_LAYER_NAMES.items()}[part] }.{kind}"
    return f"{ {v: k for k, v in GGUF_NAMES.items()}[stem] }.{kind}"


def add_tokenizer(writer, size, extras):
    """A byte-level or (extras["spm"]) SentencePiece-style vocabulary, filled up to `size` tokens."""
    if extras.get("spm"):
        tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
        pieces = ["▁"] + [chr(c) for c in range(97, 123)] + ["▁t", "he", "▁the", "in", "an", "▁a", "er", "on", "re"]
        types = [2, 3, 3] + [6] * 256 + [1] * len(pieces)
        scores = [0.0] * 259 + [-float(i) for i in range(len(pieces))]
        tokens += pieces
    else:
        tokens = bpe_vocabulary()
        types = [3] * len(SPECIALS) + [1] * (len(tokens) - len(SPECIALS))
        scores = None
    fill = range(size - len(tokens))
    tokens, types = tokens + [f"<unused{i}>" for i in fill], types + [5 for _ in fill]
    writer.add_tokenizer_model("llama" if extras.get("spm") else "gpt2")
    if scores is None:
        writer.add_tokenizer_pre(extras.get("pre", "gpt-2"))
        writer.add_token_merges([" ".join(pair) for pair in MERGES])
    else:
        writer.add_token_scores(scores + [-1000.0 for _ in fill])
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(bool(extras.get("spm")))
    writer.add_chat_template(CHAT_TEMPLATE)


def write_gguf(path, architecture, config, tied, matrix_type, embedding_type, extras, rng):
    import gguf

    config = dict(config, model_type=architecture)
    hidden, _, _, head, mlp, layers, vocab = dimensions(config)
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    writer = gguf.GGUFWriter(str(path), architecture)
    writer.add_name("random " + path.stem)
    writer.add_context_length(2048)
    writer.add_embedding_length(hidden)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(mlp)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_theta"])
    if "head_dim" in config:
        writer.add_key_length(head)
        writer.add_value_length(head)
    if architecture == "llama":
        writer.add_rope_dimension_count(head)
        writer.add_vocab_size(vocab)
    if "linear" in extras:
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(extras["linear"])
    if "yarn" in extras:
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(extras["yarn"])
        writer.add_rope_scaling_orig_ctx_len(64)
    add_tokenizer(writer, vocab, extras)
    if extras.get("factors"):
        writer.add_tensor("rope_freqs.weight", np.linspace(1.0, 8.0, head // 2, dtype=np.float32))
    for name, value in random_weights(config, tied, rng).items():
        if architecture == "llama" and ("q_proj" in name or "k_proj" in name):
            n = heads if "q_proj" in name else kv_heads  # a llama file pairs rows for interleaved rope
            value = value.reshape(n, 2, -1, value.shape[1]).swapaxes(1, 2).reshape(value.shape)
        kind = embedding_type if "embed_tokens" in name or "lm_head" in name else matrix_type
        add_tensor(writer, rng, to_gguf_name(name), np.ascontiguousarray(value), kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def make_gguf(folder):
    """Writes every GGUF model into `folder`; returns name -> path."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    paths = {}
    for i, (name, spec) in enumerate(gguf_models().items()):
        paths[name] = folder / f"{name}.gguf"
        write_gguf(paths[name], *spec, np.random.default_rng([20261129, 1, i]))
    return paths


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gguf", metavar="DIR", help="write the GGUF models here instead of the Hugging Face folders")
    arguments = parser.parse_args()
    if arguments.gguf:
        for path in make_gguf(arguments.gguf).values():
            print(f"{path}  {path.stat().st_size} bytes")
        return
    for i, (name, family) in enumerate(FAMILIES.items()):
        folder = HERE / "fixtures" / "models" / name
        write_hf(folder, family, np.random.default_rng([20261129, 0, i]))
        print(f"{folder}  {sum(f.stat().st_size for f in folder.iterdir())} bytes")


if __name__ == "__main__":
    main()

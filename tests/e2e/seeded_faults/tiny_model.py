"""A small random model with the tokenizer and template of a fixture.

Its hidden size is six leaves of 32, so that there are two ways to sum a row: over two leaves there is one.
"""

import json
import shutil
import struct

import numpy as np

SIZES = {
    "head_dim": 16,
    "hidden_size": 192,
    "intermediate_size": 256,
    "max_position_embeddings": 2048,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "num_key_value_heads": 2,
    "tie_word_embeddings": False,
}


def shapes(config):
    hidden, mlp, head = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    heads, kv_heads = config["num_attention_heads"] * head, config["num_key_value_heads"] * head
    yield "model.embed_tokens.weight", (config["vocab_size"], hidden)
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}."
        yield prefix + "input_layernorm.weight", (hidden,)
        yield prefix + "self_attn.q_proj.weight", (heads, hidden)
        yield prefix + "self_attn.k_proj.weight", (kv_heads, hidden)
        yield prefix + "self_attn.v_proj.weight", (kv_heads, hidden)
        yield prefix + "self_attn.o_proj.weight", (hidden, heads)
        yield prefix + "post_attention_layernorm.weight", (hidden,)
        yield prefix + "mlp.gate_proj.weight", (mlp, hidden)
        yield prefix + "mlp.up_proj.weight", (mlp, hidden)
        yield prefix + "mlp.down_proj.weight", (hidden, mlp)
    yield "model.norm.weight", (hidden,)
    yield "lm_head.weight", (config["vocab_size"], hidden)


def write_safetensors(path, tensors):
    """tensors: name -> float32 array, written as bf16."""
    header, parts, at = {}, [], 0
    for name, values in tensors.items():
        data = (values.astype("<f4").view("<u4") >> 16).astype("<u2").tobytes()
        header[name] = {"dtype": "BF16", "shape": list(values.shape), "data_offsets": [at, at + len(data)]}
        parts.append(data)
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(parts))


def write_model(fixture, folder, seed=1):
    """fixture: a folder with config, tokenizer and template of a Llama."""
    folder.mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(fixture / name, folder / name)
    config = json.loads((fixture / "config.json").read_text()) | SIZES
    config.pop("rope_scaling", None)
    # What it draws is noise, and must not end by chance: the token that would end it is the last of all.
    end = {"eos_token_id": config["vocab_size"] - 1}
    generation = json.loads((fixture / "generation_config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | end))
    (folder / "generation_config.json").write_text(json.dumps(generation | end))
    random = np.random.Generator(np.random.PCG64(seed))

    def values(shape):
        uniform = random.random(shape, dtype=np.float32)
        return 0.75 + 0.5 * uniform if len(shape) == 1 else 0.4 * (uniform - 0.5)

    write_safetensors(folder / "model.safetensors", {name: values(shape) for name, shape in shapes(config)})
    return folder

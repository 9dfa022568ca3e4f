"""A whole decoder-only transformer in float64 and numpy: the yardstick of the accuracy tests.

Reads a Hugging Face folder (config.json, safetensors, sharded or not) or a GGUF file and evaluates Llama, Mistral,
Qwen2 and Qwen3 models on the weights exactly as stored (quantised ones as the float32 values their format defines).
`make_logits.py` holds it against transformers; the tests then use it live.

    model = load("path/to/folder-or-file.gguf")
    logits = forward(model, token_ids)            # [positions, vocabulary], float64

Command line: python3 float64_forward.py MODEL "1 2 3"   prints the five best tokens at each position.
"""

import dataclasses
import json
import math
import pathlib
import sys

import numpy as np


@dataclasses.dataclass
class Config:
    """What the forward needs to know, one meaning for both file formats."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_size: int
    eps: float
    theta: float
    scaling: dict | None  # rope: None, or {"rope_type": "linear" | "llama3" | "yarn", ...} as in config.json
    factors: np.ndarray | None  # rope: per-frequency divisors (GGUF's rope_freqs.weight)
    windows: list  # per layer: None or the number of keys that a query sees, itself included
    vocab: int


@dataclasses.dataclass
class Model:
    config: Config
    weights: object  # name (Hugging Face's) -> float64 array; has `in`


# ---------------------------------------------------------------------------------------------------------------------
# Hugging Face folders


def _hf_rope(cfg):
    """(theta, scaling or None) from either spelling: rope_theta + rope_scaling, or rope_parameters."""
    new = cfg.get("rope_parameters") or {}
    scaling = cfg.get("rope_scaling") or new or None
    theta = cfg.get("rope_theta", new.get("rope_theta", 10000.0))
    if scaling:
        kind = scaling.get("rope_type", scaling.get("type", "default"))
        if kind == "default":
            return theta, None
        if kind not in ("linear", "llama3", "yarn"):
            raise ValueError(f"rope type {kind} is not supported here")
        context = scaling.get("original_max_position_embeddings", cfg["max_position_embeddings"])
        return theta, {**scaling, "rope_type": kind, "original_max_position_embeddings": context}
    return theta, None


def _hf_windows(cfg):
    layers, window = cfg["num_hidden_layers"], cfg.get("sliding_window")
    if "layer_types" in cfg:
        return [window if kind == "sliding_attention" else None for kind in cfg["layer_types"]]
    if cfg["model_type"] == "mistral":
        return [window] * layers
    if cfg["model_type"].startswith("qwen") and cfg.get("use_sliding_window") and window:
        return [window if i >= cfg.get("max_window_layers", 28) else None for i in range(layers)]
    return [None] * layers


def hf_config(cfg):
    """Config from the dictionary of a config.json."""
    if cfg["model_type"] not in ("llama", "mistral", "qwen2", "qwen3"):
        raise ValueError(f"model_type {cfg['model_type']} is not supported here")
    theta, scaling = _hf_rope(cfg)
    heads = cfg["num_attention_heads"]
    return Config(
        hidden=cfg["hidden_size"],
        layers=cfg["num_hidden_layers"],
        heads=heads,
        kv_heads=cfg.get("num_key_value_heads") or heads,
        head_size=cfg.get("head_dim") or (128 if cfg["model_type"] == "qwen3" else cfg["hidden_size"] // heads),
        eps=cfg.get("rms_norm_eps", 1e-6),
        theta=theta,
        scaling=scaling,
        factors=None,
        windows=_hf_windows(cfg),
        vocab=cfg["vocab_size"],
    )


def _decode(raw, dtype, shape):
    """Stored bytes of a safetensors tensor as float64."""
    if dtype == "BF16":
        wide = np.frombuffer(raw, "<u2").astype("<u4") << np.uint32(16)
        return wide.view("<f4").astype(np.float64).reshape(shape)
    return np.frombuffer(raw, {"F32": "<f4", "F16": "<f2", "F64": "<f8"}[dtype]).astype(np.float64).reshape(shape)


def read_safetensors(path):
    """All tensors of one file: name -> float64 array."""
    data = pathlib.Path(path).read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    header.pop("__metadata__", None)
    out = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        out[name] = _decode(data[8 + size + begin : 8 + size + end], entry["dtype"], entry["shape"])
    return out


def load_hf(folder):
    folder = pathlib.Path(folder)
    cfg = json.loads((folder / "config.json").read_text())
    index = folder / "model.safetensors.index.json"
    names = ["model.safetensors"]
    if index.exists():
        names = sorted(set(json.loads(index.read_text())["weight_map"].values()))
    weights = {}
    for name in names:
        weights.update(read_safetensors(folder / name))
    return Model(hf_config(cfg), weights)


# ---------------------------------------------------------------------------------------------------------------------
# GGUF files

GGUF_NAMES = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
GGUF_LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def gguf_to_hf_name(name):
    """Hugging Face's name of a GGUF tensor; rope_freqs.weight keeps its own."""
    parts = name.split(".")
    if parts[0] == "blk":
        return f"model.layers.{parts[1]}.{GGUF_LAYER_NAMES[parts[2]]}.{parts[3]}"
    return f"{GGUF_NAMES[parts[0]]}.{parts[1]}" if parts[0] in GGUF_NAMES else name


class GgufWeights:
    """Expands a tensor whenever it is asked for, so that a large model need not lie in memory in float64."""

    def __init__(self, reader, architecture, heads, kv_heads):
        self.tensors = {gguf_to_hf_name(t.name): t for t in reader.tensors}
        self.rows = {"q_proj": heads, "k_proj": kv_heads} if architecture == "llama" else {}

    def __contains__(self, name):
        return name in self.tensors

    def __getitem__(self, name):
        import gguf

        tensor = self.tensors[name]
        value = np.asarray(gguf.dequantize(tensor.data, tensor.tensor_type), dtype=np.float64)
        value = value.reshape([int(n) for n in tensor.shape][::-1])
        for part, heads in self.rows.items():
            if part in name:  # GGUF pairs rows (2i, 2i+1) of a llama head for rope; put them back to (i, i + half)
                shape = value.shape
                value = value.reshape(heads, shape[0] // heads // 2, 2, *shape[1:]).swapaxes(1, 2).reshape(shape)
        return value


def load_gguf(path):
    import gguf

    reader = gguf.GGUFReader(str(path))
    architecture = reader.fields["general.architecture"].contents()
    if architecture not in ("llama", "qwen2", "qwen3"):
        raise ValueError(f"general.architecture {architecture} is not supported here")

    def field(key, default=None):
        found = reader.fields.get(f"{architecture}.{key}")
        return default if found is None else found.contents()

    heads, hidden = field("attention.head_count"), field("embedding_length")
    kv_heads, layers = field("attention.head_count_kv", heads), field("block_count")
    weights = GgufWeights(reader, architecture, heads, kv_heads)
    kind, scaling = field("rope.scaling.type", "none"), None
    if kind not in ("none", "linear", "yarn"):
        raise ValueError(f"rope.scaling.type {kind} is not supported here")
    if kind != "none":
        context = field("rope.scaling.original_context_length", field("context_length"))
        scaling = dict(rope_type=kind, factor=field("rope.scaling.factor"), original_max_position_embeddings=context)
    factors = weights["rope_freqs.weight"] if "rope_freqs.weight" in weights else None  # noqa: SIM401 (has no get)
    config = Config(
        hidden=hidden,
        layers=layers,
        heads=heads,
        kv_heads=kv_heads,
        head_size=field("attention.key_length", hidden // heads),
        eps=field("attention.layer_norm_rms_epsilon"),
        theta=field("rope.freq_base", 10000.0),
        scaling=scaling,
        factors=factors,
        windows=[field("attention.sliding_window")] * layers,
        vocab=int(weights.tensors["model.embed_tokens.weight"].shape[1]),
    )
    return Model(config, weights)


def load(path):
    """Model from a Hugging Face folder or a GGUF file."""
    return load_hf(path) if pathlib.Path(path).is_dir() else load_gguf(path)


# ---------------------------------------------------------------------------------------------------------------------
# The forward


def rope_frequencies(config):
    """Angle a position, float64 [head_size / 2], scaling included."""
    half = np.arange(0, config.head_size, 2, dtype=np.float64) / config.head_size
    frequency = 1.0 / config.theta**half
    scaling = config.scaling
    if config.factors is not None:
        frequency = frequency / config.factors
    if scaling is None:
        return frequency
    factor = scaling["factor"]
    if scaling["rope_type"] == "linear":
        return frequency / factor
    old = scaling["original_max_position_embeddings"]
    if scaling["rope_type"] == "yarn":
        # Pairs below `low` turn often enough to be kept, those above `high` are slowed; a ramp over the index between.
        def pair_of(turns):
            return config.head_size * math.log(old / (turns * 2.0 * math.pi)) / (2.0 * math.log(config.theta))

        low = max(math.floor(pair_of(scaling.get("beta_fast") or 32.0)), 0)
        high = min(math.ceil(pair_of(scaling.get("beta_slow") or 1.0)), config.head_size - 1)
        high = high + 0.001 if high == low else high
        keep = 1.0 - np.clip((np.arange(config.head_size // 2) - low) / (high - low), 0.0, 1.0)
    else:
        # llama3: long waves are slowed, short ones kept, those between blended by their turns in the old context.
        low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
        keep = np.clip((old * frequency / (2.0 * math.pi) - low) / (high - low), 0.0, 1.0)
    return (1.0 - keep) * frequency / factor + keep * frequency


def rope_magnitude(config):
    """What cos and sin are multiplied by: 1, but for yarn."""
    if config.scaling is None or config.scaling["rope_type"] != "yarn":
        return 1.0
    return config.scaling.get("attention_factor") or 0.1 * math.log(config.scaling["factor"]) + 1.0


def rope_tables(config, positions):
    """cos and sin, [positions, head_size / 2]."""
    angle = np.asarray(positions, np.float64)[:, None] * rope_frequencies(config)[None, :]
    return np.cos(angle) * rope_magnitude(config), np.sin(angle) * rope_magnitude(config)


def rms_norm(x, weight, eps):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps) * weight


def rotate(x, cos, sin):
    """x: [positions, heads, head_size], half-split pairs (i, i + half)."""
    half = x.shape[-1] // 2
    a, b = x[..., :half], x[..., half:]
    cos, sin = cos[:, None, :], sin[:, None, :]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


def visible(n, window):
    """Boolean [n, n]: query i sees key j when i - window < j <= i."""
    i, j = np.arange(n)[:, None], np.arange(n)[None, :]
    return (j <= i) if window is None else (j <= i) & (j > i - window)


def attend(q, k, v, mask):
    """q: [n, heads, d]; k, v: [n, kv_heads, d]; returns [n, heads * d]."""
    n, heads, d = q.shape
    out = np.empty_like(q)
    for h in range(heads):
        g = h // (heads // k.shape[1])
        s = np.where(mask, q[:, h] @ k[:, g].T / math.sqrt(d), -np.inf)
        p = np.exp(s - s.max(axis=-1, keepdims=True))
        out[:, h] = (p / p.sum(axis=-1, keepdims=True)) @ v[:, g]
    return out.reshape(n, heads * d)


def _project(weights, name, x):
    y = x @ weights[name + ".weight"].T
    return y + weights[name + ".bias"] if name + ".bias" in weights else y


def layer(model, i, h, cos, sin):
    """One decoder layer on the residual stream h, [n, hidden]."""
    c, w, p = model.config, model.weights, f"model.layers.{i}."
    n = len(h)
    x = rms_norm(h, w[p + "input_layernorm.weight"], c.eps)
    q = _project(w, p + "self_attn.q_proj", x).reshape(n, c.heads, c.head_size)
    k = _project(w, p + "self_attn.k_proj", x).reshape(n, c.kv_heads, c.head_size)
    v = _project(w, p + "self_attn.v_proj", x).reshape(n, c.kv_heads, c.head_size)
    if p + "self_attn.q_norm.weight" in w:
        q = rms_norm(q, w[p + "self_attn.q_norm.weight"], c.eps)
        k = rms_norm(k, w[p + "self_attn.k_norm.weight"], c.eps)
    a = attend(rotate(q, cos, sin), rotate(k, cos, sin), v, visible(n, c.windows[i]))
    h = h + _project(w, p + "self_attn.o_proj", a)
    x = rms_norm(h, w[p + "post_attention_layernorm.weight"], c.eps)
    gate, up = _project(w, p + "mlp.gate_proj", x), _project(w, p + "mlp.up_proj", x)
    return h + _project(w, p + "mlp.down_proj", gate / (1.0 + np.exp(-gate)) * up)


def final_hidden(model, tokens, tables=None):
    """Normed hidden states before the head, [positions, hidden]. `tables`: (cos, sin) to use instead of our own."""
    c, w = model.config, model.weights
    cos, sin = tables or rope_tables(c, range(len(tokens)))
    h = w["model.embed_tokens.weight"][np.asarray(tokens)]
    for i in range(c.layers):
        h = layer(model, i, h, cos, sin)
    return rms_norm(h, w["model.norm.weight"], c.eps)


def forward(model, tokens, tables=None):
    """Logits at every position, float64 [positions, vocabulary]."""
    w = model.weights
    head = w["lm_head.weight"] if "lm_head.weight" in w else w["model.embed_tokens.weight"]
    return final_hidden(model, tokens, tables) @ head.T


def log_softmax(logits):
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def token_logprobs(logits, tokens):
    """Logprob of tokens[1:], each given those before it."""
    rows = log_softmax(logits[:-1])
    return rows[np.arange(len(tokens) - 1), np.asarray(tokens)[1:]]


def main():
    model = load(sys.argv[1])
    tokens = [int(t) for t in sys.argv[2].split()]
    logprobs = log_softmax(forward(model, tokens))
    for position, row in enumerate(logprobs):
        best = np.argsort(-row, kind="stable")[:5]
        print(position, " ".join(f"{t}:{row[t]:.6f}" for t in best))


if __name__ == "__main__":
    main()

"""Makes fixtures/logits/ and fixtures/rope.json with Hugging Face transformers in float64 (eager attention, CPU).

    python3 make_logits.py [--smollm2 MODEL.gguf] [--out DIR]

Needs torch and transformers 5 (beside numpy; --smollm2 also needs gguf). Run once; the results are committed.

logits/<name>.npz     per family and variant (make_models.py): tokens (150 ids), positions, logits (float32, a row each)
logits/report.json    versions, and how far float64_forward.py is from transformers
rope.json             inverse frequencies and attention scaling of some published rope settings, as transformers
                      computes them (float32, given by their bits in hexadecimal)

Even with float64 weights transformers norms, takes softmax and makes rope's tables in float32. So three figures are
given, each the largest difference of a logit: `plain` against transformers as it is; `tables` the same with its own cos
and sin; `wide` against transformers with every such float32 replaced by float64. The fixtures hold the last.
"""

import argparse
import contextlib
import json
import pathlib
import tempfile
from unittest import mock

import numpy as np
import torch
import transformers

import float64_forward
import make_models

HERE = pathlib.Path(__file__).parent
TOKENS = 150
ROPE_CASES = {
    "default-theta10000-head64": dict(head=64, rope=dict(rope_type="default", rope_theta=10000.0)),
    "default-theta100000-head64": dict(head=64, rope=dict(rope_type="default", rope_theta=100000.0)),
    "default-theta1000000-head128": dict(head=128, rope=dict(rope_type="default", rope_theta=1000000.0)),
    "linear4-theta10000-head128": dict(head=128, rope=dict(rope_type="linear", rope_theta=10000.0, factor=4.0)),
    "qwen2.5-yarn4": dict(
        head=128, rope=dict(rope_type="yarn", rope_theta=1000000.0, factor=4.0, original_max_position_embeddings=32768)
    ),
    "llama3.1-8b": dict(
        head=128,
        rope=dict(
            rope_type="llama3",
            rope_theta=500000.0,
            factor=8.0,
            low_freq_factor=1.0,
            high_freq_factor=4.0,
            original_max_position_embeddings=8192,
        ),
    ),
    "llama3.2-1b": dict(
        head=64,
        rope=dict(
            rope_type="llama3",
            rope_theta=500000.0,
            factor=32.0,
            low_freq_factor=1.0,
            high_freq_factor=4.0,
            original_max_position_embeddings=8192,
        ),
    ),
}


@contextlib.contextmanager
def float64_everywhere():
    """Inside, what transformers asks to be float32 is float64."""
    with (
        mock.patch.object(torch, "float32", torch.float64),
        mock.patch.object(torch, "float", torch.float64),
        mock.patch.object(torch.Tensor, "float", torch.Tensor.double),
    ):
        yield


def hf_logits(model, tokens):
    with torch.no_grad():
        return model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0].double().numpy()


def hf_tables(model, n):
    """transformers' own cos and sin, [n, head_size / 2]."""
    x = torch.zeros(1, n, 1, dtype=torch.float64)
    cos, sin = model.model.rotary_emb(x, torch.arange(n)[None, :])
    half = cos.shape[-1] // 2
    return cos[0, :, :half].double().numpy(), sin[0, :, :half].double().numpy()


def compare(model, ours, tokens):
    """(figures, the wide logits) of one model and sequence; the wide figure is what the fixtures rest on."""
    plain = hf_logits(model, tokens)
    own = float64_forward.forward(ours, tokens)
    with_tables = float64_forward.forward(ours, tokens, hf_tables(model, len(tokens)))
    figures = dict(
        plain=float(abs(plain - own).max()),
        tables=float(abs(plain - with_tables).max()),
        rms=float(np.sqrt(np.mean(plain**2))),
    )
    with float64_everywhere():
        rotary = model.model.rotary_emb
        model.model.rotary_emb = type(rotary)(model.config)
        wide = hf_logits(model, tokens)
        model.model.rotary_emb = rotary
    figures["wide"] = float(abs(wide - own).max())
    return figures, wide


def family_fixture(folder, out):
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float64, attn_implementation="eager"
    ).eval()
    assert next(model.parameters()).dtype == torch.float64
    ours = float64_forward.load(folder)
    rng = np.random.default_rng([20261129, 2] + list(folder.name.encode()))
    tokens = [int(t) for t in rng.integers(0, ours.config.vocab, TOKENS)]
    figures, wide = compare(model, ours, tokens)
    at = np.unique(list(range(0, TOKENS, 4)) + [1, 62, 63, 64, 65, 69, 70, 71, 126, 127, 128, 129, TOKENS - 1])
    np.savez_compressed(
        out / f"{folder.name}.npz",
        tokens=np.array(tokens, "<u2"),
        positions=at.astype("<u2"),
        logits=wide[at].astype("<f4"),
    )
    return figures


def smollm2_figures(path):
    """Figures for SmolLM2's dequantised weights on its prompts and the perplexity text."""
    ours = float64_forward.load(path)
    c = ours.config
    config = transformers.LlamaConfig(
        vocab_size=c.vocab,
        hidden_size=c.hidden,
        intermediate_size=1536,
        num_hidden_layers=c.layers,
        num_attention_heads=c.heads,
        num_key_value_heads=c.kv_heads,
        head_dim=c.head_size,
        rms_norm_eps=c.eps,
        rope_parameters=dict(rope_type="default", rope_theta=c.theta),
        tie_word_embeddings=True,
        max_position_embeddings=2048,
        attn_implementation="eager",
    )
    torch.set_default_dtype(torch.float64)
    model = transformers.LlamaForCausalLM(config).eval()
    torch.set_default_dtype(torch.float32)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(torch.from_numpy(np.ascontiguousarray(ours.weights[name])))
    folder, result = HERE / "fixtures" / "smollm2", {}
    for p, prompt in enumerate(json.loads((folder / "prompts.json").read_text())):
        result[f"prompt {p}"] = compare(model, ours, prompt["token_ids"])[0]
    text = json.loads((folder / "text.json").read_text())
    figures, wide = compare(model, ours, text["token_ids"])
    figures["perplexity"] = float(np.exp(-float64_forward.token_logprobs(wide, text["token_ids"]).mean()))
    result["text"] = figures
    return result


def rope_facts():
    facts = {}
    for name, case in ROPE_CASES.items():
        config = transformers.LlamaConfig(
            hidden_size=case["head"] * 2,
            num_attention_heads=2,
            head_dim=case["head"],
            rope_parameters=case["rope"],
            max_position_embeddings=131072,
        )
        rotary = transformers.models.llama.modeling_llama.LlamaRotaryEmbedding(config)
        bits = rotary.inv_freq.float().numpy().astype("<f4").view("<u4")
        facts[name] = dict(
            head_size=case["head"],
            rope=case["rope"],
            attention_scaling=float(rotary.attention_scaling),
            inv_freq_bits=[f"{b:08x}" for b in bits],
        )
    return facts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smollm2", metavar="GGUF", help="also compare on this file's dequantised weights")
    parser.add_argument("--out", type=pathlib.Path, default=HERE / "fixtures", help="default: fixtures/")
    arguments = parser.parse_args()
    logits = arguments.out / "logits"
    logits.mkdir(parents=True, exist_ok=True)
    path = logits / "report.json"
    report = json.loads(path.read_text()) if path.exists() else {}
    if arguments.smollm2:
        report["smollm2-135m-instruct"] = smollm2_figures(arguments.smollm2)
    else:
        report.update(torch=torch.__version__, transformers=transformers.__version__, numpy=np.__version__)
        (arguments.out / "rope.json").write_text(json.dumps(rope_facts(), indent=1) + "\n")
        for folder in sorted((HERE / "fixtures" / "models").iterdir()):
            report[folder.name] = family_fixture(folder, logits)
        with tempfile.TemporaryDirectory() as scratch:
            for name in make_models.VARIANTS:
                folder = pathlib.Path(scratch) / name
                make_models.write_variant(name, folder)
                report[name] = family_fixture(folder, logits)
    path.write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()

"""Makes fixtures/smollm2/: what SmolLM2-135M-Instruct (the Q4_1 file of `eadem pull smollm2-135m`) should answer.

    python3 make_smollm2.py MODEL.gguf

text.json     token ids of text.txt (an original text), the float64 logprob of every token after the first, and the
              perplexity exp(-mean) over them
prompts.json  three prompts and their token ids
logits.npz    for prompt p (0, 1, 2): positions_p; top_ids_p, top_logits_p (the 64 largest logits, float32, at each of
              these positions); subset_logits_p (at the fixed 512 vocabulary entries subset_ids); lse_p (float64
              log-sum-exp of all logits, so that a logprob is logit - lse)

All values come from float64_forward.py on the dequantised weights, which make_logits.py compares with transformers.
Token ids come from the `tokenizers` library: the file's byte-level BPE with digits split one by one.
"""

import json
import pathlib
import sys

import numpy as np

import float64_forward

FOLDER = pathlib.Path(__file__).parent / "fixtures" / "smollm2"
PROMPTS = [
    "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
    "<|im_start|>user\nWhat is the capital of Norway?<|im_end|>\n<|im_start|>assistant\n",
    "def mean(values):\n    total = 0.0\n    for value in values:\n        total += value\n"
    "    return total / len(values)\n\nprint(mean([1, 25, 1024]))",
    "The ferry leaves the harbour at 7:45 in the morning, and the crossing takes about two hours when the sea is calm. "
    "In winter, however, the captain often waits until the fog has lifted, so nobody who lives on the island ever "
    "promises to be anywhere before noon. The baker opens his shop when the first passengers arrive, not earlier.",
]


def tokenizer(path):
    """The `tokenizers` form of the vocabulary inside a GGUF file whose pre-tokenizer is named smollm."""
    import gguf
    import tokenizers
    from tokenizers import models, pre_tokenizers

    fields = gguf.GGUFReader(str(path)).fields
    assert fields["tokenizer.ggml.pre"].contents() == "smollm"
    tokens = fields["tokenizer.ggml.tokens"].contents()
    merges = [tuple(m.split(" ")) for m in fields["tokenizer.ggml.merges"].contents()]
    types = fields["tokenizer.ggml.token_type"].contents()
    result = tokenizers.Tokenizer(models.BPE({t: i for i, t in enumerate(tokens)}, merges))
    result.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    result.add_special_tokens([t for t, kind in zip(tokens, types, strict=True) if kind == 3])
    assert result.get_vocab_size() == len(tokens)
    return result


def positions(n):
    """A dozen positions of a prompt of n tokens: the first two, the last four, and some between."""
    return np.unique(np.concatenate([[0, 1], np.linspace(2, n - 5, 6).astype(int), np.arange(n - 4, n)]))


def main():
    path = pathlib.Path(sys.argv[1])
    model, encode = float64_forward.load(path), tokenizer(path)
    prompts = [dict(text=text, token_ids=encode.encode(text).ids) for text in PROMPTS]
    subset = np.random.default_rng(7).choice(model.config.vocab, 512, replace=False)
    arrays = {"subset_ids": np.sort(subset).astype("<u2")}
    for p, prompt in enumerate(prompts):
        at = positions(len(prompt["token_ids"]))
        logits = float64_forward.forward(model, prompt["token_ids"])[at]
        order = np.argsort(-logits, axis=-1, kind="stable")[:, :64]
        arrays[f"positions_{p}"] = at.astype("<u2")
        arrays[f"top_ids_{p}"] = order.astype("<u2")
        arrays[f"top_logits_{p}"] = np.take_along_axis(logits, order, axis=-1).astype("<f4")
        arrays[f"subset_logits_{p}"] = logits[:, arrays["subset_ids"]].astype("<f4")
        arrays[f"lse_{p}"] = np.log(np.exp(logits - logits.max(-1, keepdims=True)).sum(-1)) + logits.max(-1)
        print(f"prompt {p}: {len(prompt['token_ids'])} tokens, logits' rms {np.sqrt(np.mean(logits**2)):.3f}")
    np.savez_compressed(FOLDER / "logits.npz", **arrays)
    (FOLDER / "prompts.json").write_text(json.dumps(prompts, indent=1) + "\n")

    ids = encode.encode((FOLDER / "text.txt").read_text(encoding="utf-8")).ids
    logprobs = float64_forward.token_logprobs(float64_forward.forward(model, ids), ids)
    perplexity = float(np.exp(-logprobs.mean()))
    (FOLDER / "text.json").write_text(
        json.dumps(dict(perplexity=perplexity, token_ids=ids, logprobs=[round(float(x), 9) for x in logprobs])) + "\n"
    )
    print(f"text: {len(ids)} tokens, perplexity {perplexity:.6f}")


if __name__ == "__main__":
    main()

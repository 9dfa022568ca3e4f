"""How far `eadem score` is from float64: every family, tensor type and numerics, and SmolLM2 itself.

The program gives logprobs, so errors are those of log-softmax, as a share of the root mean square of the expected
logits. EADEM names the program (default build/eadem); EADEM_SMOLLM2 a copy of SmolLM2's GGUF file, which is otherwise
fetched by `eadem pull`.
"""

import functools
import json
import os
import pathlib
import subprocess

import float64_forward
import make_models
import numpy as np
import pytest

FIXTURES = pathlib.Path(__file__).parent / "fixtures"
PROGRAM = os.environ.get("EADEM", str(pathlib.Path(__file__).parents[2] / "build" / "eadem"))
NUMERICS = ("mma16", "fma32", "int8")
# Shares of the logits' root mean square. bf16 operands give 0.4 to 1.5 % on these models. int8's bound is what a numpy
# model of its rounding gives on them, 1.6 to 4.5 %, with a third to spare.
LARGEST_ERROR = {"mma16": 0.02, "fma32": 0.02, "int8": 0.06}
# Top-1 is asked where the best two logits lie further apart than this many errors: 3.5 deviations of their difference.
CLEAR_MARGIN = 5.0
LARGEST_PERPLEXITY_ERROR = {"mma16": 0.003, "fma32": 0.003, "int8": 0.02}


def score(model, sequences, numerics, top, folder):
    """`eadem score` on token ids: per sequence an entry a token, (its logprob, {token: logprob}); the first is None."""
    source, target = folder / "in.jsonl", folder / "out.jsonl"
    target.unlink(missing_ok=True)
    source.write_text(
        "".join(json.dumps(dict(prompt=[int(t) for t in s], prompt_logprobs=top)) + "\n" for s in sequences)
    )
    command = [PROGRAM, "score", "-m", str(model), "--in", str(source), "--out", str(target), "--numerics", numerics]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in target.read_text().splitlines()]
    assert len(answers) == len(sequences)
    return [read_answer(answer, sequence, numerics) for answer, sequence in zip(answers, sequences, strict=True)]


def read_answer(answer, sequence, numerics):
    """One answer of the program as score() gives it."""
    assert answer["numerics"].startswith(numerics)
    assert answer["prompt_token_ids"] == [int(t) for t in sequence]
    own = answer["prompt_logprobs"]
    tops = answer.get("prompt_top_logprobs", [[] for _ in own])
    assert len(own) == len(tops) == len(sequence) and own[0] is None
    entries = [(p, {entry["token_id"]: entry["logprob"] for entry in top}) for p, top in zip(own, tops, strict=True)]
    return [None, *entries[1:]]


@pytest.fixture(scope="module")
def gguf_paths(tmp_path_factory):
    return make_models.make_gguf(tmp_path_factory.mktemp("gguf"))


@pytest.fixture(scope="module")
def smollm2():
    if "EADEM_SMOLLM2" in os.environ:
        return os.environ["EADEM_SMOLLM2"]
    done = subprocess.run([PROGRAM, "pull", "smollm2-135m"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return "smollm2-135m"


@functools.cache
def live_logits(path, count):
    """(tokens, float64 logits) of a random sequence of `count` tokens."""
    model = float64_forward.load(path)
    tokens = np.random.default_rng([20261129, 3, count]).integers(0, model.config.vocab, count)
    return tokens, float64_forward.forward(model, tokens)


def matrix(entries, positions, vocab):
    """Logprobs of the whole vocabulary after each of the positions, [positions, vocabulary]."""
    rows = np.full((len(positions), vocab), np.nan)
    for row, position in zip(rows, positions, strict=True):
        for token, logprob in entries[position + 1][1].items():
            row[token] = logprob
    assert not np.isnan(rows).any(), "the program left out tokens of the vocabulary"
    return rows


def check_logprobs(logprobs, logits, numerics, name):
    """Holds [positions, vocabulary] logprobs against expected logits: size of the error, and who comes first."""
    errors = logprobs - float64_forward.log_softmax(logits.astype(np.float64))
    rmse = np.sqrt(np.mean(errors**2))
    relative = rmse / np.sqrt(np.mean(logits.astype(np.float64) ** 2))
    best = np.sort(logits, axis=-1)[:, -2:]
    clear = best[:, 1] - best[:, 0] > CLEAR_MARGIN * rmse
    agreement = np.mean((logprobs.argmax(-1) == logits.argmax(-1))[clear]) if clear.any() else np.nan
    print(f"{name} {numerics}: relative error {relative:.4f}, top-1 {agreement:.4f} of {clear.sum()}/{len(clear)}")
    assert relative <= LARGEST_ERROR[numerics], f"relative error {relative}"
    assert clear.mean() > 0.3
    assert agreement >= 0.99


def positions_of(fixture):
    """The fixture's positions that have a next token, hence an entry of the program's."""
    keep = fixture["positions"] < len(fixture["tokens"]) - 1
    return fixture["positions"][keep], fixture["logits"][keep]


@pytest.mark.parametrize("numerics", NUMERICS)
@pytest.mark.parametrize("name", [*make_models.FAMILIES, *make_models.VARIANTS])
def test_family_against_transformers(name, numerics, tmp_path):
    folder = FIXTURES / "models" / name
    if name in make_models.VARIANTS:
        folder = tmp_path / name
        make_models.write_variant(name, folder)
    fixture = np.load(FIXTURES / "logits" / f"{name}.npz")
    positions, logits = positions_of(fixture)
    (entries,) = score(folder, [fixture["tokens"]], numerics, logits.shape[1], tmp_path)
    check_logprobs(matrix(entries, positions, logits.shape[1]), logits, numerics, name)


@pytest.mark.parametrize("numerics", NUMERICS)
@pytest.mark.parametrize("name", make_models.gguf_models())
def test_gguf_against_float64(name, numerics, gguf_paths, tmp_path):
    tokens, logits = live_logits(gguf_paths[name], 130)
    (entries,) = score(gguf_paths[name], [tokens], numerics, logits.shape[1], tmp_path)
    check_logprobs(matrix(entries, range(129), logits.shape[1]), logits[:129], numerics, name)


@pytest.mark.parametrize("numerics", NUMERICS)
def test_two_splits_of_keys(numerics, gguf_paths, tmp_path):
    """Beyond 1,024 keys attention joins two splits: own logprobs of a long sequence."""
    tokens, logits = live_logits(gguf_paths["f32-stories"], 1200)
    (entries,) = score(gguf_paths["f32-stories"], [tokens], numerics, 0, tmp_path)
    own = np.array([entry[0] for entry in entries[1:]])
    errors = (own - float64_forward.token_logprobs(logits, tokens))[1023:]
    relative = np.sqrt(np.mean(errors**2) / np.mean(logits**2))
    print(f"beyond 1,024 keys, {numerics}: relative error {relative:.4f}")
    assert relative <= LARGEST_ERROR[numerics]


@pytest.mark.parametrize("name", make_models.VARIANTS)
def test_other_configuration_is_noticed(name, tmp_path):
    """Control: the program on a variant's configuration, held against its family's logits, must fail."""
    family = make_models.VARIANTS[name][0]
    make_models.write_variant(name, tmp_path / name)
    fixture = np.load(FIXTURES / "logits" / f"{family}.npz")
    positions, logits = positions_of(fixture)
    (entries,) = score(tmp_path / name, [fixture["tokens"]], "fma32", logits.shape[1], tmp_path)
    with pytest.raises(AssertionError, match="relative"):
        check_logprobs(matrix(entries, positions, logits.shape[1]), logits, "fma32", f"{name} as {family}")


def test_numerics_differ(tmp_path):
    """Control: the three numerics really ran; each rounds in its own way."""
    fixture = np.load(FIXTURES / "logits" / "qwen3.npz")
    answers = [score(FIXTURES / "models" / "qwen3", [fixture["tokens"]], n, 0, tmp_path)[0] for n in NUMERICS]
    own = [tuple(entry[0] for entry in entries[1:]) for entries in answers]
    assert len(set(own)) == len(NUMERICS)


@pytest.mark.parametrize("numerics", NUMERICS)
def test_smollm2_logits(numerics, smollm2, tmp_path):
    prompts = json.loads((FIXTURES / "smollm2" / "prompts.json").read_text())
    fixture = np.load(FIXTURES / "smollm2" / "logits.npz")
    answers = score(smollm2, [prompt["token_ids"] for prompt in prompts], numerics, 20, tmp_path)
    errors, squares, firsts = [], [], []
    for p, entries in enumerate(answers):
        for row, position in enumerate(fixture[f"positions_{p}"]):
            if position + 1 == len(entries):
                continue
            expected = dict(zip(fixture[f"top_ids_{p}"][row].tolist(), fixture[f"top_logits_{p}"][row], strict=True))
            got = entries[position + 1][1]
            common = [token for token in got if token in expected]
            assert len(common) >= 16
            lse = fixture[f"lse_{p}"][row]
            errors += [got[token] - (float(expected[token]) - lse) for token in common]
            first, second = fixture[f"top_logits_{p}"][row][:2]
            firsts.append((first - second, max(got, key=got.get) == fixture[f"top_ids_{p}"][row][0]))
        squares.append(fixture[f"subset_logits_{p}"].astype(np.float64).ravel() ** 2)
    rmse = np.sqrt(np.mean(np.square(errors)))
    relative = rmse / np.sqrt(np.mean(np.concatenate(squares)))
    clear = [equal for margin, equal in firsts if margin > CLEAR_MARGIN * rmse]
    agreement = np.mean(clear)
    print(f"SmolLM2 {numerics}: relative error {relative:.4f}, top-1 {agreement:.4f} of {len(clear)}/{len(firsts)}")
    assert relative <= LARGEST_ERROR[numerics]
    assert len(clear) > 0.3 * len(firsts)
    assert agreement >= 0.99


@pytest.mark.parametrize("numerics", NUMERICS)
def test_smollm2_perplexity(numerics, smollm2, tmp_path):
    text = json.loads((FIXTURES / "smollm2" / "text.json").read_text())
    (entries,) = score(smollm2, [text["token_ids"]], numerics, 0, tmp_path)
    perplexity = np.exp(-np.mean([entry[0] for entry in entries[1:]]))
    share = perplexity / text["perplexity"] - 1.0
    print(f"SmolLM2 {numerics}: perplexity {perplexity:.5f}, float64 {text['perplexity']:.5f}, {100 * share:+.3f} %")
    assert abs(share) <= LARGEST_PERPLEXITY_ERROR[numerics]


@pytest.mark.parametrize("numerics", NUMERICS)
def test_one_model_in_two_formats(numerics, tmp_path):
    """The same weights from safetensors and from GGUF, whose q and k rows are interleaved: the same bits.

    Control: another rope base in the GGUF file changes them.
    """
    config = make_models.GGUF_STORIES
    family = dict(make_models.FAMILIES["llama3"], dtype="F32", config=dict(config, model_type="llama"))
    make_models.write_hf(tmp_path / "folder", family, np.random.default_rng(21))
    for name, theta in (("same", config["rope_theta"]), ("other", 10001.0)):
        spec = ("llama", dict(config, rope_theta=theta), True, "F32", "F32", {})
        make_models.write_gguf(tmp_path / f"{name}.gguf", *spec, np.random.default_rng(21))
    tokens = np.random.default_rng(22).integers(0, config["vocab_size"], 100)
    folder, same, other = (
        [entry[0] for entry in score(tmp_path / name, [tokens], numerics, 0, tmp_path)[0][1:]]
        for name in ("folder", "same.gguf", "other.gguf")
    )
    assert folder == same
    assert folder != other

"""The yardstick is straight: the float64 forward against transformers' answers, and controls that the fixtures notice.

None of these needs the program; test_accuracy.py then measures it with this yardstick.
"""

import dataclasses
import filecmp
import json
import pathlib

import float64_forward
import make_models
import numpy as np
import pytest

FIXTURES = pathlib.Path(__file__).parent / "fixtures"
LARGEST_ERROR = 0.02  # of mma16 and fma32, as a share of the logits' root mean square
NAMES = [*make_models.FAMILIES, *make_models.VARIANTS]


def folder_of(name, scratch):
    """The folder of a family, or of a variant written under `scratch`."""
    if name in make_models.FAMILIES:
        return FIXTURES / "models" / name
    make_models.write_variant(name, scratch / name)
    return scratch / name


def relative_rmse(logits, expected):
    return np.sqrt(np.mean((logits - expected) ** 2) / np.mean(expected**2))


@pytest.mark.parametrize("name", NAMES)
def test_forward_equals_transformers(name, tmp_path):
    fixture = np.load(FIXTURES / "logits" / f"{name}.npz")
    logits = float64_forward.forward(float64_forward.load(folder_of(name, tmp_path)), fixture["tokens"])
    # The fixture holds float32: half a unit in the last place of the largest logits is 2.4e-7 to 4.8e-7.
    assert np.abs(logits[fixture["positions"]] - fixture["logits"]).max() < 1e-6
    assert 1.5 < fixture["logits"].std() < 2.5


def test_transformers_report():
    report = json.loads((FIXTURES / "logits" / "report.json").read_text())
    assert set(NAMES) <= set(report)
    entries = [report[name] for name in NAMES] + list(report["smollm2-135m-instruct"].values())
    assert all(entry["wide"] < 1e-9 and entry["plain"] < 1e-4 for entry in entries)


def test_rope_frequencies_are_transformers():
    cases = json.loads((FIXTURES / "rope.json").read_text())
    assert len(cases) >= 7
    for case in cases.values():
        rope = case["rope"]
        scaling = None if rope["rope_type"] == "default" else rope
        config = float64_forward.Config(0, 0, 0, 0, case["head_size"], 0, rope["rope_theta"], scaling, None, [], 0)
        bits = np.array([int(text, 16) for text in case["inv_freq_bits"]], np.uint32)
        ours = float64_forward.rope_frequencies(config)
        assert np.abs(bits.view(np.float32) / ours - 1.0).max() < 5e-7  # transformers works in float32
        assert float64_forward.rope_magnitude(config) == pytest.approx(case["attention_scaling"], rel=1e-15)


def without(weights, part):
    """The weights whose names do not contain `part`."""
    return {name: value for name, value in weights.items() if part not in name}


# What a program might forget: (model, config without it, weights without it).
OMISSIONS = {
    "llama3 rope scaling": ("llama3", dict(scaling=None), None),
    "linear rope scaling": ("llama2-linear", dict(scaling=None), None),
    "yarn rope scaling": ("qwen2-yarn", dict(scaling=None), None),
    "yarn magnitude": ("qwen2-yarn", dict(scaling="no magnitude"), None),
    "sliding window": ("mistral", dict(windows=[None, None]), None),
    "sliding window off by one": ("mistral", dict(windows=[71, 71]), None),
    "window that is not used": ("qwen2", dict(windows=[64, 64]), None),
    "biases": ("qwen2", {}, ".bias"),
    "key bias": ("qwen2", {}, "k_proj.bias"),
    "q/k norm": ("qwen3", {}, "q_norm"),
    "rope theta": ("smollm2", dict(theta=10000.0), None),
    "norm epsilon": ("smollm2", dict(eps=1e-2), None),
}


@pytest.mark.parametrize("omission", OMISSIONS)
def test_fixtures_notice(omission, tmp_path):
    """Control: a forward that lacks one feature is outside what the accuracy tests allow."""
    name, changes, dropped = OMISSIONS[omission]
    fixture = np.load(FIXTURES / "logits" / f"{name}.npz")
    model = float64_forward.load(folder_of(name, tmp_path))
    if changes.get("scaling") == "no magnitude":
        changes = dict(scaling=dict(model.config.scaling, attention_factor=1.0))
    weights = without(model.weights, dropped) if dropped else model.weights
    broken = float64_forward.Model(dataclasses.replace(model.config, **changes), weights)
    logits = float64_forward.forward(broken, fixture["tokens"])[fixture["positions"]]
    print(f"{omission}: relative error {relative_rmse(logits, fixture['logits']):.3f}")
    assert relative_rmse(logits, fixture["logits"]) > LARGEST_ERROR


def test_models_are_what_their_script_makes(tmp_path):
    for i, (name, family) in enumerate(make_models.FAMILIES.items()):
        make_models.write_hf(tmp_path / name, family, np.random.default_rng([20261129, 0, i]))
        stored = FIXTURES / "models" / name
        names = sorted(path.name for path in stored.iterdir())
        assert sorted(path.name for path in (tmp_path / name).iterdir()) == names
        assert filecmp.cmpfiles(stored, tmp_path / name, names, shallow=False)[0] == names


def test_gguf_and_safetensors_are_one_model(tmp_path):
    """Interleaved rows, names and metadata of a GGUF file read back to the same float64 logits."""
    config = dict(make_models.GGUF_STORIES, model_type="llama", max_position_embeddings=512)
    family = dict(dtype="F32", architecture="LlamaForCausalLM", tied=True, config=config)
    spec = ("llama", make_models.GGUF_STORIES, True, "F32", "F32", {"spm": True})
    make_models.write_hf(tmp_path / "folder", family, np.random.default_rng(11))
    make_models.write_gguf(tmp_path / "file.gguf", *spec, np.random.default_rng(11))
    tokens = np.random.default_rng(12).integers(0, 512, 100)
    one = float64_forward.forward(float64_forward.load(tmp_path / "folder"), tokens)
    other = float64_forward.forward(float64_forward.load(tmp_path / "file.gguf"), tokens)
    assert np.abs(one - other).max() < 1e-6  # the file's rope base and epsilon are float32

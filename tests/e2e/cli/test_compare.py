"""`eadem diff` on runs of the program, and `eadem cost`, which runs both modes itself."""

import json

import pytest

from conftest import MODELS, Eadem

QUICK = ("--pairs", "16", "--batch", "2", "--prompt-tokens", "24", "--max-tokens", "6", "--threads", "2")


def requests(seeds, prompts=12):
    return [
        {"id": f"q{i}", "prompt": [5 + i, 9, 11 + i], "seed": seed, "max_tokens": 5, "logprobs": 1}
        for i in range(prompts)
        for seed in seeds
    ]


@pytest.fixture
def diff(tmp_path):
    return Eadem(tmp_path, model=None)


@pytest.fixture
def run(eadem, tmp_path):
    """A file of answers to these requests."""

    def make(name, lines, *arguments):
        path = tmp_path / name
        answers = eadem.batch(lines, *arguments)
        path.write_text("".join(json.dumps(answer) + "\n" for answer in answers))
        return path

    return make


def test_other_threads_and_batches_give_equal_bits(run, diff):
    a = run("a", requests([1, 2]), "--threads", "1", "--max-batch", "1")
    b = run("b", requests([1, 2])[::-1], "--threads", "2", "--prefill-chunk", "2")
    document = json.loads(diff("diff", a, b, "--json").stdout)
    assert document["strongest_level"] == "bits" and document["matching"]["pairs"] == 24
    assert document["identity"]["equal"] and not document["identity"]["bug"]


def test_free_order_is_no_bug_but_differs(run, diff, tmp_path):
    a = run("a", requests([1, 2]))
    b = run("b", requests([1, 2]), "--mode", "free")
    page = tmp_path / "diff.html"
    assert "level bits: differs" in diff.error("diff", a, b, "--html", page, status=1)
    assert "<html" in page.read_text() and "diff" in page.read_text()
    document = json.loads(diff("diff", a, b, "--json", status=1).stdout)
    assert document["strongest_level"] != "bits" and not document["identity"]["bug"]
    assert document["identity"]["differing"][0]["field"] == "numerics"
    assert document["levels"][0]["verdict"] == "differs"


def test_another_model_differs_in_distribution(run, tmp_path, diff):
    a = run("a", requests(range(8)))
    other = Eadem(tmp_path, MODELS / "smollm2")
    assert other.model.exists()
    b = tmp_path / "b"
    b.write_text("".join(json.dumps(answer) + "\n" for answer in other.batch(requests(range(8)))))
    assert "differs" in diff.error("diff", a, b, "--level", "distribution", status=1)


def test_traces_part_at_an_op(eadem, diff, tmp_path):
    for name, mode in (("a", "contract"), ("b", "contract"), ("c", "free")):
        eadem.batch(requests([1], prompts=2), "--trace", tmp_path / name, "--mode", mode)
    diff("diff", tmp_path / "a", tmp_path / "b")
    done = diff("diff", tmp_path / "a", tmp_path / "c", status=1)
    assert b"position" in done.stdout and b"layer" in done.stdout


def test_bad_files_and_levels_are_refused(run, diff, tmp_path):
    a = run("a", requests([1], prompts=1))
    assert "cannot read" in diff.error("diff", a, tmp_path / "none")
    assert "--level" in diff.error("diff", a, a, "--level", "bitwise")
    assert "--margin-logits" in diff.error("diff", a, a, "--margin-logits", "0")


def test_cost_runs_both_modes_and_tells_what_it_did(eadem, diff, tmp_path):
    page = tmp_path / "cost.html"
    document = json.loads(eadem("cost", *QUICK, "--json", "--html", page).stdout)
    assert "<html" in page.read_text()
    assert document["a"]["mode"] == "contract" and document["b"]["mode"] == "free"
    assert [metric["name"] for metric in document["metrics"]] == ["ttft", "prefill", "decode", "itl_p50", "itl_p99"]
    for metric in document["metrics"]:
        increase, ratio = metric["time_increase"], metric["throughput_ratio"]
        assert increase["low"] <= increase["estimate"] <= increase["high"] and len(metric["ratios"]) == 16
        assert ratio["estimate"] == pytest.approx(1 / (1 + increase["estimate"]))
    evidence = document["evidence"]
    assert evidence["runs_a_equal"] and evidence["kernel_calls_a"] > 0 and evidence["kernel_calls_b"] > 0
    assert document["memory"]["a"]["peak_resident_bytes"] > document["memory"]["a"]["weight_bytes"]
    assert document["capacity"]["a"]["sequences"] > 0

    saved = tmp_path / "saved.json"
    saved.write_text(json.dumps(document))
    assert b"| metric |" in diff("cost", saved, saved).stdout
    document["conditions"]["threads"] = 7
    other = tmp_path / "other.json"
    other.write_text(json.dumps(document))
    assert "unlike runs: conditions.threads 2 and 7" in diff.error("cost", saved, other)


def test_cost_refuses_what_it_cannot_compare(eadem):
    assert "mma16" in eadem.error("cost", *QUICK, "--numerics", "mma16")
    assert "--mode" in eadem.error("cost", *QUICK, "--mode", "free")
    assert "even" in eadem.error("cost", "--pairs", "3")

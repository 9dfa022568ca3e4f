"""The harness of `./dev bench cpu`: what its samples come to, what it tells, and the processes that it times."""

import argparse
import dataclasses
import json
import pathlib
import statistics
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree

import gguf
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
STUB = pathlib.Path(__file__).parent / "stub_worker.py"
FIXTURE = ROOT / "tests" / "accuracy" / "fixtures" / "models" / "smollm2"
sys.path[:0] = [str(ROOT / "bench" / "cpu"), str(ROOT / "tests" / "support")]

import figures  # noqa: E402
import models  # noqa: E402
import plan  # noqa: E402
import plot  # noqa: E402
import report  # noqa: E402
import run  # noqa: E402
import targets  # noqa: E402
import workers  # noqa: E402
from serving import PATIENCE, wait_until  # noqa: E402
from shapes import SHAPES  # noqa: E402

PREFILL, ONE, SIXTEEN, MANY = plan.Point(0, 512), plan.Point(1, 64), plan.Point(16, 64), plan.Point(32, 64)
LINEUP = plan.Lineup("smollm2-135m", 2, (PREFILL, ONE, SIXTEEN), tuple(plan.CONTENDERS))
FMA, LLAMA = plan.CONTENDERS[0], next(c for c in plan.CONTENDERS if c.engine == "llama.cpp")


def cell(contender, point, samples, error=""):
    made = {"contender": contender, "rows": point.rows, "context": point.context, "samples": samples}
    return made | ({"error": error} if error else figures.summary(samples))


def result_of(cells, weight_bytes=269_000_000, peaks=None, threads=2):
    """A result with one line-up; its machine reads 34 GB/s at any size."""
    eadem = {"engine": "eadem", "version": "0.1.0", "settings": {"isa": "amx"}, "weight_bytes": weight_bytes}
    eadem |= {"load_seconds": 1.5, "peak_resident_bytes": 2**30}
    peaks = peaks or {
        "fma_fp32": 300.0,
        "vdpbf16ps": 600.0,
        "vpdpbusd": 1200.0,
        "amx_bf16": 5700.0,
        "amx_int8": 10000.0,
    }
    ceilings = {
        "peaks": {name: rate and {"median": rate, "spread": 0.01, "unit": "GFLOP/s"} for name, rate in peaks.items()},
        "read": [{"bytes": 1 << 31, "median": 34.0, "spread": 0.02, "unit": "GB/s"}],
    }
    lineup = {"model": "smollm2-135m", "threads": threads, "ceilings": ceilings, "cells": cells}
    lineup |= {"key": ["smollm2-135m", threads, [], [], 5], "others_share": 0.01}
    lineup["loaded"] = {c.name: eadem for c in plan.CONTENDERS if c.engine == "eadem"}
    machine = {
        "cpu": "a processor",
        "family": "6",
        "model": "1",
        "cores": 2,
        "memory_bytes": 1 << 34,
        "system": "Linux",
    }
    return {
        "date": "2026-01-01",
        "commit": "abc",
        "command": "./dev bench cpu",
        "machine": machine,
        "settings": {"seed": 1},
        "lineups": [lineup],
    }


def test_median_and_spread_against_python():
    samples = [5.0, 1.0, 4.0, 2.0]
    found = figures.summary(samples)
    assert found["median"] == statistics.median(samples) == 3.0
    assert found["spread"] == pytest.approx(4 / 3)
    assert figures.summary([7.0]) == {"median": 7.0, "spread": 0.0}


def test_weights_of_the_shapes_are_those_of_the_models():
    # The published counts of parameters with a tied embedding, less norms: 134.5 M, 596 M, 1,236 M.
    for name, millions in (("smollm2-135m", 134.5), ("qwen3-0.6b", 596), ("llama-3.2-1b", 1236)):
        shape = SHAPES[name]
        assert (shape.linear_weights() + shape.head_weights()) / 1e6 == pytest.approx(millions, rel=0.002)
    assert SHAPES["smollm2-135m"].kv_bytes(1) == 2 * 30 * 3 * 64 * 2


def test_shares_and_ceilings_by_hand():
    shape = SHAPES["smollm2-135m"]
    found = figures.Figures(result_of([cell(FMA.name, ONE, [100.0] * 5), cell(FMA.name, PREFILL, [5000.0] * 5)]))
    share = figures.shares(FMA.name, ONE, found)
    assert share["read"] == pytest.approx(100 * (269e6 + shape.kv_bytes(64)) / 34e9)
    assert share["by"] == "amx_bf16"
    prefill = figures.shares(FMA.name, PREFILL, found)
    assert prefill == {
        "by": "amx_bf16",
        "arithmetic": pytest.approx(5000 * shape.prefill_operations(512) / 512 / 5.7e12),
    }
    assert figures.ceiling(FMA.name, ONE, found) == pytest.approx(34e9 / (269e6 + shape.kv_bytes(64)))
    # So many rows that arithmetic ends first.
    many = figures.ceiling(FMA.name, plan.Point(512, 1), found)
    assert many == pytest.approx(5.7e12 / shape.decode_operations(1))
    assert figures.shares(FMA.name, SIXTEEN, found) == {}, "no cell, no share"


def test_targets_are_reached_missed_or_not_measured():
    def verdicts(cells, **machine):
        entries = targets.evaluate(figures.Figures(result_of(cells, **machine)))
        return {entry["what"]: (entry["value"], entry["reached"]) for entry in entries}

    name = "fma32 prefill of 512 over llama.cpp's BF16"
    assert verdicts([cell(FMA.name, PREFILL, [8.0]), cell(LLAMA.name, PREFILL, [1.0])])[name] == (8.0, True)
    assert verdicts([cell(FMA.name, PREFILL, [7.9]), cell(LLAMA.name, PREFILL, [1.0])])[name] == (7.9, False)
    assert verdicts([cell(FMA.name, PREFILL, [8.0])])[name] == (None, None)
    assert verdicts([cell(FMA.name, PREFILL, [8.0]), cell(LLAMA.name, PREFILL, [], "broke")])[name] == (None, None)
    # The best peer counts, not the first.
    best = "fma32 decode of 16 rows over the best peer of any format"
    slow, fast = cell(LLAMA.name, SIXTEEN, [1.0]), cell("OpenVINO Q8_0", SIXTEEN, [4.0])
    assert verdicts([cell(FMA.name, SIXTEEN, [6.0]), slow, fast])[best] == (1.5, True)
    # A machine without AMX has other targets, and says so by null.
    other = verdicts([], peaks={"fma_fp32": 200.0, "vdpbf16ps": 450.0, "amx_bf16": None})
    assert name in other and "fma32 prefill of 512 over OpenVINO's F16" not in other
    assert "fma32 prefill of 512, share of vdpbf16ps' peak" in other


def test_the_long_context_target_charges_the_bytes_of_keys_and_values():
    kv = SHAPES["smollm2-135m"].kv_bytes(32768)
    allowed = 1.2 * (1 / 100 + kv / 34e9)
    far = plan.Point(1, 32768)
    for rate, reached in ((1.001 / allowed, True), (0.999 / allowed, False)):
        found = figures.Figures(result_of([cell(FMA.name, ONE, [100.0]), cell(FMA.name, far, [rate])]))
        entry = next(e for e in targets.evaluate(found) if e["what"].startswith("decode at 32k"))
        assert entry["reached"] is reached, entry


def test_a_line_up_is_cut_by_formats_where_memory_is_short():
    wanted = [("llama-3.2-1b", 2, (PREFILL, ONE))]
    whole = plan.lineups(wanted, plan.CONTENDERS, 5, 1 << 50)
    assert len(whole) == 1
    cut = plan.lineups(wanted, plan.CONTENDERS, 5, 1 << 34)
    assert len(cut) > 1 and all(len({c.group for c in x.contenders}) == 1 for x in cut)
    assert sorted(c.name for x in cut for c in x.contenders) == sorted(c.name for c in whole[0].contenders)
    assert all(c.engine != "serve" for c in whole[0].contenders), "serve has no point here"


def test_estimates_grow_with_rounds_and_points():
    few, many = plan.seconds_of(LINEUP, 2), plan.seconds_of(LINEUP, 5)
    assert 0 < few < many
    longer = plan.Lineup(LINEUP.model, 2, (*LINEUP.points, *plan.CONTEXTS), LINEUP.contenders)
    assert plan.seconds_of(longer, 5) > many


def test_contexts_have_room_for_every_round():
    lineup = plan.Lineup("smollm2-135m", 2, (plan.Point(1, 32768),), (FMA,))
    point = lineup.points[0]
    assert lineup.positions(5) >= 32768 + 5 * (point.steps("smollm2-135m") + run.WARM_STEPS)
    assert run.fresh_steps(point, lineup.model, 0, 5) == 5 * (point.steps(lineup.model) + run.WARM_STEPS)
    assert run.fresh_steps(point, lineup.model, 1, 5) is None
    assert run.fresh_steps(ONE, lineup.model, 3, 5) == ONE.steps(lineup.model) + run.WARM_STEPS


def test_the_page_has_every_cell_and_replaces_its_own_section_alone():
    cells = [cell(FMA.name, p, [100.0 * max(1, p.rows), 101.0 * max(1, p.rows)]) for p in (PREFILL, ONE, SIXTEEN)]
    cells += [cell(LLAMA.name, ONE, [50.0, 51.0]), cell(LLAMA.name, SIXTEEN, [], "it | broke\nhere")]
    result = result_of(cells)
    markdown, drawn = report.page(result)
    assert f"| {FMA.name} | 100 (1 %) | 100 (1 %) | 1,608 (1 %) |" in markdown
    assert "no figure: it / broke here" in markdown, "a failed cell stays"
    assert f"| smollm2-135m | {FMA.name} | 1.5 | 257 |  | 1,024 |" in markdown
    assert "**missed**" in markdown or "not measured" in markdown
    assert all(line.count("|") >= 3 for line in markdown.splitlines() if line.startswith("|"))
    for name, svg in drawn.items():
        assert f"images/{name}" in markdown
        assert ElementTree.fromstring(svg).tag.endswith("svg")
    assert "cpu-rows-smollm2-135m.svg" in drawn
    page = f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n"
    replaced = report.replace_section(page, "new")
    assert replaced.startswith("before\n") and replaced.endswith("\nafter\n")
    assert "new" in replaced and "old" not in replaced
    assert report.replace_section(replaced, "new") == replaced
    with pytest.raises(ValueError, match="no section"):
        report.replace_section("nothing here", "new")


def test_the_page_in_the_repository_has_the_section():
    text = (ROOT / "docs" / "performance.md").read_text()
    assert text.count(report.BEGIN) == text.count(report.END) == 1


@pytest.mark.parametrize("low,high,logarithmic", [(0, 97, False), (0, 0.3, False), (3, 4000, True)])
def test_axes_are_labelled_inside_and_often_enough(low, high, logarithmic):
    found = plot.ticks(low, high, logarithmic)
    assert 3 <= len(found) <= 13 and all(low <= value <= high * 1.0001 for value in found), found


def test_points_lie_where_their_values_say():
    line = plot.Line("a & b", "#123456", [(1, 10.0, 9.0, 11.0), (4, 40.0, None, None), (16, 100.0, 90.0, 110.0)])
    axes = plot.Axes(plot.Panel("t", "x", "y", [line], log_y=True), 0)
    assert axes.x(4) - axes.x(1) == pytest.approx(axes.x(16) - axes.x(4)), "x is logarithmic"
    assert axes.y(10) - axes.y(20) == pytest.approx(axes.y(20) - axes.y(40)), "y is logarithmic"
    assert axes.top <= axes.y(110) < axes.y(9) <= axes.bottom
    assert "a &amp; b" in plot.chart([plot.Panel("t", "x", "y", [line])])


class Replies:
    """Streams as bench/serving/client.py gives them: events at set times, then usage, then [DONE]."""

    def __init__(self, times, tokens, status=200):
        self.times, self.status, self.error, self.body = [*times, times[-1], times[-1]], status, "", b""
        self.tokens = tokens

    def parsed(self):
        events = [{"choices": [{"text": "x"}]} for _ in self.times[:-2]]
        return [*events, {"choices": [], "usage": {"completion_tokens": self.tokens}}]


def test_the_rate_of_streams_counts_tokens_while_all_decode():
    # From 2 (the last first token) to 8 (the first end): six tokens of the one, six of the other.
    first, second = Replies([float(t) for t in range(11)], 11), Replies([float(t) for t in range(2, 9)], 7)
    assert workers.decode_rate([first, second]) == pytest.approx(12 / 6)
    # Twice as many tokens as events: each event weighs two.
    assert workers.decode_rate([Replies([float(t) for t in range(11)], 22)]) == pytest.approx(2.0)
    with pytest.raises(workers.WorkerError, match="ended before"):
        workers.decode_rate([Replies([0.0, 1.0], 2), Replies([2.0, 3.0], 2)])
    with pytest.raises(workers.WorkerError, match="503"):
        workers.decode_rate([Replies([0.0, 1.0], 2, status=503)])


def stub(*words):
    return workers.Process([sys.executable, STUB, *words])


def test_rounds_take_turns_and_a_failed_engine_keeps_its_cell():
    good, bad = stub("0.5"), stub("0.5", "--die")
    try:
        cells = run.run_point({FMA: good, LLAMA: bad}, ONE, LINEUP, 3, 1)
        assert cells[0]["samples"] == [ONE.steps(LINEUP.model) / 0.5] * 3 and cells[0]["spread"] == 0.0
        assert "the stub dies" in cells[1]["error"] and cells[1]["samples"] == []
        again = run.run_point({FMA: good, LLAMA: bad}, PREFILL, LINEUP, 2, 1)
        assert again[0]["median"] == 512 / 0.5
        assert "ended with" in again[1]["error"]
    finally:
        good.close()
        bad.close()
    with pytest.raises(workers.WorkerError, match="no such model"):
        stub("1", "--refuse", "no such model")


def state_of(process):
    """T: stopped by a signal."""
    return pathlib.Path(f"/proc/{process.process.pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


def test_one_that_waits_is_stopped():
    process = stub("0.5")
    try:
        wait_until(lambda: state_of(process) == "T", PATIENCE, "the process to be stopped")
        process.wake()
        assert process.ask("prefill", tokens=1, seed=1) == 0.5
        process.sleep()
        wait_until(lambda: state_of(process) == "T", PATIENCE, "the process to be stopped again")
    finally:
        process.close()


def test_the_engine_as_a_worker_decodes_as_told():
    worker = workers.Process(
        [ROOT / "build" / "bench" / "bench_worker", "-m", FIXTURE, "--numerics", "fma32", "--threads", 1]
        + ["--rows", 2, "--positions", 256]
    )
    try:
        assert worker.description["engine"] == "eadem" and worker.description["weight_bytes"] > 0
        worker.wake()
        assert worker.ask("prefill", tokens=32, seed=1) > 0
        worker.ask("start", rows=2, context=16, steps=6, seed=2)
        assert worker.ask("advance", steps=6) > 0
        with pytest.raises(workers.WorkerError, match="ended before the time"):
            worker.ask("advance", steps=40)
        worker.ask("stop")
        with pytest.raises(workers.WorkerError, match="context"):
            worker.ask("start", rows=1, context=100_000, steps=1, seed=2)
        worker.ask("start", rows=1, context=16, steps=2, seed=3)
    finally:
        worker.close()


def test_ceilings_of_a_moment():
    options = argparse.Namespace(ceilings=ROOT / "build" / "bench" / "bench_ceilings")
    command = [options.ceilings, "--threads", "2", "--repeats", "1", "--seconds", "0.002", "--read", "1048576,4194304"]
    found = json.loads(subprocess.run([str(word) for word in command], capture_output=True, check=True).stdout)
    assert found["peaks"]["fma_fp32"]["median"] > 0
    assert [read["bytes"] for read in found["read"]] == [1 << 20, 1 << 22] and all(
        r["median"] > 0 for r in found["read"]
    )
    refused = subprocess.run([str(options.ceilings), "--threads", "0"], capture_output=True, text=True)
    assert refused.returncode == 2 and "below its least" in refused.stderr


class StubLauncher:
    """Starts stubs: a peer's second variant is the faster one, OpenVINO is not installed."""

    def __init__(self):
        self.settings, self.started = {}, []

    def start(self, contender, lineup, path, rounds, variant=None):
        words = self.settings.get(contender, []) if variant is None else variant
        self.started.append((contender.name, tuple(words)))
        if contender.engine == "OpenVINO":
            raise workers.WorkerError("not installed here")
        return stub("0.25" if words == workers.VARIANTS["llama.cpp"][1] else "0.5")


@pytest.fixture
def without_files(monkeypatch):
    monkeypatch.setattr(run, "model_file", lambda *_: pathlib.Path("none"))
    return argparse.Namespace(
        models_folder="", smollm2="", ceilings=ROOT / "build" / "bench" / "bench_ceilings", quick=True
    )


def test_the_peers_best_setting_is_tried_and_used(without_files):
    openvino = next(c for c in plan.CONTENDERS if c.engine == "OpenVINO")
    lineup = plan.Lineup("smollm2-135m", 2, (ONE,), (FMA, LLAMA, openvino))
    launcher = StubLauncher()
    tried = run.tune(lineup, without_files, launcher, 1)
    first, second = workers.VARIANTS["llama.cpp"]
    assert [(entry["contender"], entry["variant"]) for entry in tried] == [(LLAMA.name, first), (LLAMA.name, second)]
    assert tried[1]["rates"] == [2 * rate for rate in tried[0]["rates"]] and figures.best_variants(tried) == {
        LLAMA.name: second
    }
    launcher.settings = {LLAMA: second}
    launcher.started.clear()
    workers_of, _, refused = run.load(lineup, without_files, launcher, 1)
    for worker in workers_of.values():
        worker.close()
    assert (LLAMA.name, tuple(second)) in launcher.started
    assert refused == {openvino: "not installed here"}


def test_a_line_up_from_end_to_end(without_files, monkeypatch):
    monkeypatch.setattr(run, "ceilings", lambda *_: {"peaks": {"fma_fp32": None}, "read": []})
    openvino = next(c for c in plan.CONTENDERS if c.engine == "OpenVINO")
    points = (PREFILL, ONE, plan.Point(1, 4096))
    lineup = plan.Lineup("smollm2-135m", 2, points, (FMA, LLAMA, openvino))
    found = run.run_lineup(lineup, without_files, StubLauncher(), 3, 1)
    assert len(found["cells"]) == 9, "every contender at every point, failed ones too"
    told = {(c["contender"], c["rows"], c["context"]): c for c in found["cells"]}
    for point in points:
        assert told[openvino.name, point.rows, point.context]["error"] == "not installed here"
        assert len(told[FMA.name, point.rows, point.context]["samples"]) == 3
    assert found["loaded"][FMA.name]["peak_resident_bytes"] > 0
    result = result_of([]) | {"lineups": [found]}
    assert "not installed here" in report.page(json.loads(json.dumps(result)))[0], "a result survives its file"


def test_a_run_goes_on_where_another_of_its_kind_ended(tmp_path):
    out, new = tmp_path / "out.json", result_of([]) | {"what": "bench cpu", "command": "later", "lineups": []}
    assert run.earlier(out, new) == new, "there is none"
    out.write_text(json.dumps(result_of([]) | {"what": "bench cpu"}))
    kept = run.earlier(out, new)
    assert len(kept["lineups"]) == 1 and kept["command"] == "later"
    assert run.earlier(out, new | {"commit": "another"})["lineups"] == [], "of another commit"
    grown = {**new["machine"], "memory_bytes": 1 << 36}
    assert len(run.earlier(out, new | {"machine": grown})["lineups"]) == 1, "memory grows while it is used"
    assert run.earlier(out, new | {"machine": {**grown, "usable": 1}})["lineups"] == [], "pinned to other cores"
    key = run.key_of(LINEUP, 5)
    assert key == json.loads(json.dumps(key)) and key != run.key_of(LINEUP, 4)


def test_what_does_not_fit_into_the_time_is_left_out():
    good, slow = stub("0.5"), stub("0.5", "--sleep", "60")
    try:
        told = run.run_point({FMA: good}, PREFILL, LINEUP, 3, 1, time.monotonic() - 1)
        assert told[0]["samples"] == [] and run.left_out(told[0])
        assert "1,024 (0 %)" in report.cell_text(run.run_point({FMA: good}, PREFILL, LINEUP, 3, 1)[0])
        # What has begun and outlasts the time is ended, and the run knows that it was no failure.
        slow.wake()
        slow.end = time.monotonic() + 0.1
        with pytest.raises(workers.OutOfTime):
            slow.ask("prefill", tokens=1, seed=1)
        slow.end = time.monotonic() + PATIENCE
        cells = run.run_point({FMA: good, LLAMA: slow}, PREFILL, LINEUP, 2, 1, time.monotonic() + PATIENCE)
        assert cells[0]["median"] == 1024 and "ended with" in cells[1]["error"] and not run.left_out(cells[1])
    finally:
        good.close()
        slow.close()


def test_options_leave_points_and_contenders(monkeypatch):
    words = ["--points", "decode 1 at 4k,prefill 512", "--without", "eadem mma16,OpenVINO", "--rounds", "3"]
    monkeypatch.setattr(sys, "argv", ["run.py", *words])
    left = run.chosen(run.parse())
    assert {point.name for x in left for point in x.points} == {"prefill 512", "decode 1 at 4k"}
    names = {c.name for x in left for c in x.contenders}
    assert FMA.name in names and LLAMA.name in names
    assert not any(name.startswith(("eadem mma16", "OpenVINO")) for name in names)


def test_a_vocabulary_alone_makes_every_model(tmp_path):
    whole, vocabulary, made = tmp_path / "whole.gguf", tmp_path / "vocabulary.gguf", tmp_path / "made.gguf"
    small = dataclasses.replace(SHAPES["smollm2-135m"], layers=1, hidden=64, heads=1, kv_heads=1, mlp=64, vocabulary=96)
    writer = gguf.GGUFWriter(whole, "llama")
    writer.add_token_list([f"t{i}" for i in range(64)])
    writer.add_token_types([1] * 64)
    models.write(writer)
    models.make(vocabulary, "smollm2-135m", "vocabulary", whole)
    models.make_random(made, small, "Q8_0", vocabulary)
    assert not models.has_weights(vocabulary) and models.has_weights(made)
    reader = gguf.GGUFReader(made)
    tokens = reader.get_field("tokenizer.ggml.tokens").contents()
    assert tokens[:2] == ["t0", "t1"] and tokens[64] == "<|unused_64|>"
    assert len(reader.tensors) == 2 + 2 + len(small.matrices())

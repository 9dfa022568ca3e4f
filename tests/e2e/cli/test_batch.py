"""A batch file: bad lines fail alone, an interrupt loses and repeats nothing, replay tells equal from different."""

import json
import os
import signal
import struct
import subprocess
import time

import pytest

REQUESTS = [
    dict(
        id=f"r{i}",
        prompt=[3 + i % 50, 7, 9 + i % 7],
        n=1 + i % 3,
        seed=i,
        temperature=0.8,
        max_tokens=6 + i % 5,
        logprobs=1,
    )
    for i in range(24)
]


def write(path, lines):
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))


@pytest.fixture
def files(tmp_path):
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    write(source, REQUESTS)
    return source, target


def test_bad_lines_fail_alone(eadem, tmp_path):
    lines = [
        dict(id="good", prompt="a", max_tokens=2),
        '{"prompt": "a"',
        dict(id="field", prompt="a", bogus=1),
        "",
        dict(prompt="a", temperature="hot"),
        dict(prompt="a", messages=[]),
        dict(prompt=[999999]),
        dict(prompt=[]),
        dict(prompt=[1] * 600),
        dict(prompt="a", top_p=0),
        '{"prompt": "a", "prompt": "b"}',
        "[" * 5000,
        dict(id="last", prompt="a", max_tokens=2),
    ]
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    write(source, lines)
    error = eadem.error("generate", "--in", source, "--out", target, status=1)
    assert error == f"eadem: 10 of 12 lines failed; their errors are in {target}\n"
    out = [json.loads(line) for line in target.read_text().splitlines()]
    assert [o["line"] for o in out] == [n for n, line in enumerate(lines, 1) if line != ""]
    assert out[0]["id"] == "good" and out[-1]["id"] == "last" and "error" not in out[0] and "error" not in out[-1]
    messages = {o["line"]: o["error"]["message"] for o in out[1:-1]}
    named = {
        2: "byte",
        3: "bogus",
        5: "temperature",
        6: "messages",
        7: "999999",
        8: "prompt_token_ids",
        9: "600",
        10: "top_p",
        11: "twice",
        12: "nested",
    }
    for number, word in named.items():
        assert word in messages[number] and "\n" not in messages[number], messages[number]
    assert out[2]["line"] == 3 and out[2]["id"] == "field"


def test_every_cut_is_mended(eadem, files):
    """Whatever part of the output an end left, the next run makes it whole, byte for byte."""
    source, target = files
    eadem("generate", "--in", source, "--out", target)
    whole = target.read_bytes()
    lines = [json.loads(line) for line in whole.splitlines()]
    assert [(o["line"], o["index"]) for o in lines] == [
        (i + 1, k) for i, r in enumerate(REQUESTS) for k in range(r["n"])
    ]
    middle = len(whole) // 2
    newline = whole.index(b"\n", middle)
    for cut in (0, 10, middle, newline, newline + 1, len(whole) - 1, len(whole)):
        target.write_bytes(whole[:cut])
        eadem("generate", "--in", source, "--out", target)
        assert target.read_bytes() == whole, f"cut at {cut} of {len(whole)}"
    # Control: what is kept is not computed anew.
    target.write_bytes(whole)
    done = eadem("generate", "--in", source, "--out", target, "--stats")
    assert json.loads(done.stderr)["finished"] == 0


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_interrupt_and_resume(eadem, tmp_path, how):
    source, target, expected = tmp_path / "in.jsonl", tmp_path / "out.jsonl", tmp_path / "expected.jsonl"
    write(source, [{**REQUESTS[i % 24], "id": f"r{i}", "max_tokens": 40, "ignore_eos": True} for i in range(150)])
    eadem("generate", "--in", source, "--out", expected)
    lines = expected.read_bytes().count(b"\n")
    command = eadem.command("generate", "--in", source, "--out", target, "--max-batch", 4)
    for _ in range(20):  # a busy machine may look away until the run is over
        target.unlink(missing_ok=True)
        process = subprocess.Popen(command, env=eadem.environment, stderr=subprocess.PIPE)
        deadline = time.monotonic() + 120
        while not (target.exists() and b"\n" in target.read_bytes()) and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(how)
        error = process.communicate(timeout=120)[1].decode()
        kept = target.read_bytes()
        if kept.count(b"\n") < lines:
            break
    assert 0 < kept.count(b"\n") < lines, "the run was not cut in its middle"
    if how == signal.SIGINT:
        assert process.returncode == 130 and error.count("\n") == 1 and "interrupted after line" in error
        assert kept.endswith(b"\n")
    eadem("generate", "--in", source, "--out", target)
    assert target.read_bytes() == expected.read_bytes()


def test_foreign_output_is_refused(eadem, files, tmp_path):
    source, target = files
    eadem("generate", "--in", source, "--out", target)
    whole = target.read_bytes()
    for change in ({"id": "other"}, {"prompt": [1]}, {"temperature": 0.5}):
        other = tmp_path / "other.jsonl"
        write(other, [{**REQUESTS[0], **change}, *REQUESTS[1:]])
        assert "line 1" in eadem.error("generate", "--in", other, "--out", target)
        assert target.read_bytes() == whole
    assert "numerics" in eadem.error("generate", "--in", source, "--out", target, "--numerics", "mma16")
    for precious in ("my thesis\n", "my thesis", '{"a": 1}', '{"line":1,"sampling":{"n":-1}}\n'):
        target.write_text(precious)
        assert "--overwrite" in eadem.error("generate", "--in", source, "--out", target)
        assert target.read_text() == precious
    eadem("generate", "--in", source, "--out", target, "--overwrite")
    assert target.read_bytes() == whole
    assert "same file" in eadem.error("generate", "--in", source, "--out", source)


def test_order_and_bounds(eadem, files):
    """A long answer first does not let later ones pass it, in a batch of two."""
    source, _ = files
    lines = [dict(id="long", prompt=[1], max_tokens=200, ignore_eos=True)] + [
        dict(id=str(i), prompt=[2], max_tokens=1) for i in range(30)
    ]
    answers = eadem.batch(lines, "--max-batch", 2)
    assert [a["id"] for a in answers] == ["long", *map(str, range(30))]


def test_replay_equal(eadem, files):
    source, target = files
    eadem("generate", "--in", source, "--out", target, "--kv-hash", "--prompt-logprobs", "1")
    for ways in ([], ["--threads", "1", "--max-batch", "3", "--prefill-chunk", "2", "--force-preempt", "3"]):
        report = json.loads(eadem("replay", target, "--json", *ways).stdout)
        assert report["equal"] and report["answers"] == report["answers_equal"] == sum(r["n"] for r in REQUESTS)
    assert b"0 different" in eadem("replay", target).stdout


def flip(value):
    """The float32 next to a logprob."""
    return struct.unpack("<f", struct.pack("<I", struct.unpack("<I", struct.pack("<f", value))[0] ^ 1))[0]


def test_replay_tells_a_tampered_file(eadem, files):
    source, target = files
    eadem("generate", "--in", source, "--out", target, "--kv-hash")
    lines = [json.loads(line) for line in target.read_text().splitlines()]
    lines[3]["logprobs"][2] = flip(lines[3]["logprobs"][2])
    lines[5]["token_ids"][1] ^= 1
    lines[6]["kv_hash"] = "0" * 64
    lines[7]["top_logprobs"][0][0]["token_id"] ^= 1
    write(target, lines)
    done = eadem("replay", target, "--json", status=1)
    report = json.loads(done.stdout)
    assert not report["equal"] and report["answers_different"] == 4
    first = [d["first_difference"] for d in report["differences"]]
    assert [(f["field"], f.get("position")) for f in first] == [
        ("logprobs", 2),
        ("token_ids", 1),
        ("kv_hash", None),
        ("top_logprobs", 0),
    ]
    assert int(first[0]["was"]["bits"], 16) ^ int(first[0]["is"]["bits"], 16) == 1
    assert "4 of" in done.stderr.decode()
    assert b"logprobs[2]" in eadem("replay", target, status=1).stdout


def test_replay_under_other_numerics(eadem, files):
    """Control: other numerics give other bits, and another identity."""
    source, target = files
    eadem("generate", "--in", source, "--out", target, "--numerics", "fma32")
    report = json.loads(eadem("replay", target, "--json", "--numerics", "int8", status=1).stdout)
    assert report["answers_different"] > 0 and len(report["other_fingerprints"]) == 1
    report = json.loads(eadem("replay", target, "--json").stdout)
    assert report["equal"] and report["numerics"] == "fma32-v1" and report["other_fingerprints"] == []


def test_replay_of_scores(eadem, tmp_path):
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    write(source, [dict(prompt="the cat"), dict(prompt="the", completion=" dog")])
    eadem("score", "--in", source, "--out", target, "--logprobs", "2")
    assert json.loads(eadem("replay", target, "--json").stdout)["answers_equal"] == 2


def test_trace(eadem, tmp_path):
    """Two ways to run write the same digests; the file is not empty."""
    traces = []
    for number, ways in enumerate((["--prefill-chunk", "2"], ["--threads", "1"])):
        path = tmp_path / f"trace{number}"
        eadem("generate", "--token-ids", "1 2 3 4 5", "--temperature", "0", "--max-tokens", "3", "--trace", path, *ways)
        traces.append(sorted(path.read_text().splitlines()))
    assert len(traces[0]) > 10 and traces[0] == traces[1]
    assert os.path.getsize(tmp_path / "trace0") > 0


def test_whoever_waits_for_an_answer_before_the_next_line_gets_it(eadem):
    with subprocess.Popen(
        eadem.command("generate", "--in", "-"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=eadem.environment,
    ) as program:
        for request in REQUESTS[:3]:
            program.stdin.write(json.dumps(request).encode() + b"\n")
            program.stdin.flush()
            for index in range(request["n"]):
                answer = json.loads(program.stdout.readline())
                assert (answer["id"], answer["index"]) == (request["id"], index)
        out, err = program.communicate(timeout=120)
        assert (out, err, program.returncode) == (b"", b"", 0)


def test_a_trace_that_does_not_fit_on_the_disk_is_an_error(eadem):
    error = eadem.error("generate", "--trace", "/dev/full", "--max-tokens", "2", "a")
    assert "cannot write the trace file /dev/full" in error

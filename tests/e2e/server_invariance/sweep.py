#!/usr/bin/env python3
"""The invariance sweep: the same requests through `eadem serve` in every way it can run them, one hash a request.

    sweep.py MODEL [--short] [--longest N] [--count N] [--only REGEX] [--json FILE] [--markdown FILE]

Each configuration is a server with its options and some passes over the requests. A pass must give every request the
hash that it had alone, and the counters of /v1/stats must show that the path in question was taken. The last server
runs in free order (`--mode free`) and must fail the same comparison: a sweep that it passes proves nothing.
"""

import argparse
import concurrent.futures
import dataclasses
import json
import pathlib
import random
import re
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from mixed_requests import GONE_TOKENS, Ask, corpus, mixed, send  # noqa: E402 (the path comes first)
from serving import Server, metric  # noqa: E402

KV_BLOCK = 64
# Sendings until the counters are reached: who meets whom, and whether a client goes in time, is chance. Each must give
# the same hashes.
TRIES = 6
EVERY = ("steps", "rows", "mixed_steps", "chunked_prompts", "prefix_hit_tokens", "preemptions", "recomputed_tokens")


@dataclasses.dataclass
class Pass:
    """One sending of all requests."""

    name: str
    way: str = "together"  # alone, together, or shuffled (in a random order, with pauses, streamed or not by chance)
    seed: int = 0
    longest: int = 0  # prompts of at most so many tokens alone; 0: all
    before: str = ""  # "prefixes": other requests with the same beginnings come first
    # Counters of the pass itself, at least; "max_sequences" and other maxima: of the server.
    at_least: dict = dataclasses.field(default_factory=dict)
    none: tuple = ()  # counters that must stay


@dataclasses.dataclass
class Configuration:
    name: str
    options: list
    passes: list
    short: bool = False  # part of the short sweep
    free_order: bool = False  # the control: some hash must differ


WIDE = ["--max-batch", 64]
RESIDENT = {"max_sequences": 4, "mixed_steps": 1}


def _one(name, options, at_least=None, none=(), **more):
    """A configuration of a single pass, everything at once."""
    return Configuration(name, [*WIDE, *options], [Pass("at once", at_least=at_least or RESIDENT, none=none)], **more)


def cache_configurations():
    """Order, restart, the prefix cache, preemption."""
    shuffled = [Pass(f"order {seed}", "shuffled", seed, at_least={"prefix_hits": 1}) for seed in range(1, 6)]
    warm = Pass("at once, cache warm", at_least={"prefix_hits": 1, **RESIDENT})
    filled = Pass("at once", before="prefixes", at_least={"prefix_hit_tokens": KV_BLOCK, **RESIDENT})
    # The longest of these fits, and little more: what grows takes the blocks of what came later.
    tight = Pass("at once", longest=200, at_least={"preemptions": 2, "recomputed_tokens": 1, "mixed_steps": 1})
    pool = [*WIDE, "--no-prefix-cache", "--kv-blocks", (tight.longest + GONE_TOKENS) // KV_BLOCK + 1]
    forced = {"preemptions": 20, "recomputed_tokens": 1, **RESIDENT}
    return [
        Configuration("default", WIDE, [Pass("at once", at_least=RESIDENT), warm, *shuffled], short=True),
        Configuration("restarted", WIDE, [Pass("at once", "shuffled", 9, at_least=RESIDENT)]),
        _one("no prefix cache", ["--no-prefix-cache"], none=("prefix_hits", "prefix_hit_tokens")),
        Configuration("prefix cache filled by others", WIDE, [filled], short=True),
        Configuration(f"KV pool of {pool[-1]} blocks", pool, [tight], short=True),
        _one("preempted every 4 tokens", ["--force-preempt", 4], forced, short=True),
    ]


def cut_configurations():
    """Chunks, batches, threads, kernel sets."""
    chunked = {"chunked_prompts": 1, **RESIDENT}
    return [
        _one("chunk budget 64", ["--prefill-chunk", 64], chunked),
        _one("chunk budget 256", ["--prefill-chunk", 256], chunked),
        _one("chunk budget 2048", ["--prefill-chunk", 2048]),
        _one("chunk budget 8192", ["--prefill-chunk", 8192]),
        Configuration("batch of 3", ["--max-batch", 3], [Pass("at once", at_least={"mixed_steps": 1})]),
        _one("1 thread", ["--threads", 1]),
        _one("3 threads", ["--threads", 3]),
        _one("kernel set avx2", ["--isa", "avx2"]),
    ]


def step_configurations(draft):
    """Speculation and asynchronous steps, and the control. draft: a model to guess with."""
    guessed = {"drafted_tokens": 1, "accepted_tokens": 1, **RESIDENT}
    control = [Pass("alone", "alone"), Pass("at once", at_least=RESIDENT)]
    return [
        _one("speculation: n-gram", ["--speculation", "ngram"], guessed, short=True),
        _one(
            "speculation: draft model", ["--speculation", "draft", "--draft-model", draft], {"draft_rows": 1, **guessed}
        ),
        _one("no asynchronous steps", ["--no-async-scheduling"], none=("overlapped_steps",)),
        Configuration("free order (control)", [*WIDE, "--mode", "free"], control, short=True, free_order=True),
    ]


# ---- One pass ------------------------------------------------------------------------------------------------------


def prefixes_of(asks):
    """Requests that begin like the others and go on otherwise."""
    others = []
    for ask in asks:
        prompt = ask.body.get("prompt")
        if prompt is not None and len(prompt) >= 2 * KV_BLOCK:
            cut = len(prompt) * 2 // 3
            body = {"prompt": [*prompt[:cut], *reversed(prompt[:7])], "max_tokens": 2, "temperature": 0}
            others.append(Ask("other", "/v1/completions", {**body, "return_token_ids": True}))
    return others


def send_all(server, asks, way="together", seed=0):
    """{name: hash}."""
    rng = random.Random(seed)
    if way == "alone":
        return {ask.name: send(server, ask, False)[0] for ask in asks}
    order, pauses, streams = list(asks), [0.0] * len(asks), [False] * len(asks)
    if way == "shuffled":
        rng.shuffle(order)
        pauses = [rng.random() * 0.3 for _ in asks]
        streams = [rng.random() < 0.5 for _ in asks]
    start = threading.Barrier(len(order))

    def one(ask, pause, stream):
        start.wait()
        time.sleep(pause)
        return send(server, ask, stream)[0]

    with concurrent.futures.ThreadPoolExecutor(len(order)) as pool:
        futures = {ask.name: pool.submit(one, ask, pauses[i], streams[i]) for i, ask in enumerate(order)}
        return {name: future.result() for name, future in futures.items()}


@dataclasses.dataclass
class Row:
    """What a pass gave."""

    configuration: str
    name: str
    requests: int
    differing: list
    unproven: list
    counters: dict
    seconds: float
    free_order: bool = False


def run_pass(server, configuration, work, asks, expected):
    """A Row; `expected` is filled where it is empty."""
    asks = [ask for ask in asks if not work.longest or ask.length <= work.longest]
    if work.before == "prefixes":
        send_all(server, prefixes_of(asks))
    before = server.wait_idle(600)["engine"]
    start = time.monotonic()
    hashes = send_all(server, asks, work.way, work.seed)
    seconds = time.monotonic() - start
    after = server.wait_idle(600)["engine"]  # every block of a client that went is free again
    if not expected:
        expected.update(hashes)
    counters = {name: after[name] - before[name] for name in after if not name.startswith("max_")}
    counters.update({name: after[name] for name in after if name.startswith("max_")})
    gone = sum(1 for ask in asks if ask.gone_after)
    guided = sum(1 for ask in asks if "response_format" in ask.body)
    limits = {"cancelled": gone, "masked_rows": guided, "kernel_calls": 1, **work.at_least}
    unproven = [
        f"{name} is {counters.get(name)}, not {least}"
        for name, least in limits.items()
        if counters.get(name, -1) < min(least, len(asks))
    ]
    unproven += [f"{name} is {counters[name]}, not 0" for name in work.none if counters.get(name, 0) != 0]
    scraped = server.metrics()
    if metric(scraped, "eadem_engine_steps_total") < after["steps"]:
        unproven.append("/metrics knows fewer steps than /v1/stats")
    differing = sorted(name for name in hashes if hashes[name] != expected[name])
    return Row(
        configuration.name, work.name, len(asks), differing, unproven, counters, seconds, configuration.free_order
    )


def tried(server, configuration, work, asks, expected):
    """The Row of a pass, sent again where a hash is as it should be and a counter is not."""
    for _ in range(TRIES):
        row = run_pass(server, configuration, work, asks, expected)
        if row.differing or not row.unproven:
            break
    return row


# ---- The sweep -----------------------------------------------------------------------------------------------------


def show(row):
    verdict = "same" if not row.differing else f"{len(row.differing)} of {row.requests} differ"
    counted = " ".join(f"{name}={row.counters.get(name, 0)}" for name in EVERY)
    print(f"{row.seconds:7.1f} s  {row.configuration}, {row.name}: {verdict}  {counted}", flush=True)
    for problem in row.unproven:
        print(f"           NOT PROVEN: {problem}", flush=True)
    if row.differing and not row.free_order:
        print(f"           DIFFER: {', '.join(row.differing)}", flush=True)


def sweep(model, folder, *, count=60, longest=3000, short=False, only="", draft=None, report=show):
    """A list of rows. Two servers give the hashes: alone on a fresh one, then everything else against them."""
    folder = pathlib.Path(folder)
    serial = iter(range(1000))

    def server(options):
        environment = {"HOME": str(folder)}
        return Server(model, *options, folder=folder / f"server{next(serial)}", environment=environment)

    rows, expected = [], {}
    with server([]) as alone:
        ids = alone.ask("/tokenize", {"prompt": corpus(), "add_special_tokens": False})["tokens"]
        asks = mixed(ids, count, longest)
        one = Pass("one by one", "alone", at_least={"steps": 1}, none=("preemptions",))
        rows.append(tried(alone, Configuration("alone", [], []), one, asks, expected))
        report(rows[-1])
    assert len(set(expected.values())) == len(asks), "two requests have one hash: they cannot be told apart"
    everything = [*cache_configurations(), *cut_configurations(), *step_configurations(draft or model)]
    for configuration in everything:
        if (short and not configuration.short) or not re.search(only, configuration.name):
            continue
        # The control is compared with itself: alone, then in company.
        wanted = {} if configuration.free_order else expected
        with server(configuration.options) as running:
            for work in configuration.passes[: 2 if short else None]:
                rows.append(tried(running, configuration, work, asks, wanted))
                report(rows[-1])
    return rows


def failures(rows):
    """What is wrong, as text; empty where the sweep passed."""
    wrong = [f"{row.configuration}, {row.name}: {problem}" for row in rows for problem in row.unproven]
    for row in rows:
        if row.differing and not row.free_order:
            wrong.append(f"{row.configuration}, {row.name}: {len(row.differing)} differ: {', '.join(row.differing)}")
    control = [row for row in rows if row.free_order]
    if control and not any(row.differing for row in control):
        wrong.append("the free-order control gave every request one hash: this sweep cannot fail")
    return wrong


def markdown(rows):
    lines = ["| configuration | pass | requests | hashes | counters |", "|---|---|---|---|---|"]
    for row in rows:
        same = row.requests - len(row.differing)
        hashes = f"{same} same" if not row.differing else f"{same} same, {len(row.differing)} differ"
        shown = {name: row.counters[name] for name in (*EVERY, *row.counters) if row.counters.get(name)}
        wanted = (
            *EVERY,
            "max_sequences",
            "prefix_evictions",
            "cancelled",
            "masked_rows",
            "drafted_tokens",
            "accepted_tokens",
            "draft_rows",
            "overlapped_steps",
        )
        counted = ", ".join(f"{name} {shown[name]}" for name in wanted if name in shown)
        lines.append(f"| {row.configuration} | {row.name} | {row.requests} | {hashes} | {counted} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--longest", type=int, default=3000)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--only", default="")
    parser.add_argument("--draft")
    parser.add_argument("--json")
    parser.add_argument("--markdown")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = sweep(
            options.model,
            folder,
            count=options.count,
            longest=options.longest,
            short=options.short,
            only=options.only,
            draft=options.draft,
        )
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps([dataclasses.asdict(row) for row in rows], indent=1))
    if options.markdown:
        pathlib.Path(options.markdown).write_text(markdown(rows))
    wrong = failures(rows)
    control = "the control differs" if any(row.free_order for row in rows) else "the control was left out"
    print("\n".join(wrong) if wrong else f"{len(rows)} passes, one hash a request; {control}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

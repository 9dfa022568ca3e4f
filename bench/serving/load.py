#!/usr/bin/env python3
"""Loads `eadem serve`, checks every answer and measures. Prints one JSON object; exits with 1 where a bound breaks.

usage: load.py soak | idle | throughput | latency | disconnect  [-m MODEL] [options] [-- options of eadem serve]

soak        many streams at once for minutes: nothing lost, nothing doubled, the same bits each time, memory flat
idle        what open connections without a request cost
throughput  some streams at once, in turn with the same requests offline by `eadem generate`; with --perf a profile
latency     the time between tokens of steady streams, alone and while long prompts arrive
disconnect  how soon a client that goes frees its blocks

The program is EADEM, or build/eadem. A model is a path or a name that `eadem pull` knows.
"""

import argparse
import asyncio
import json
import os
import pathlib
import random
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from client import Connection, percentile  # noqa: E402
from serving import Server, joined, program, wait_until  # noqa: E402

WORDS = ["river", "stone", "lamp", "winter", "engine", "paper", "orange", "music", "bridge", "copper", "garden"]
WORDS += ["letter", "window", "silver", "market", "ocean", "number", "shadow", "mirror", "ticket", "planet", "dragon"]
MEMORY_DRIFT = 0.02
IDLE_BYTES = 100 << 20
THROUGHPUT_RATIO = 0.85
LATENCY_RATIO = 3.0


def text_of(rng, words):
    return " ".join(rng.choice(WORDS) for _ in range(words))


def request(number, rng, tokens):
    """One of the kinds of requests that the load is made of: greedy or seeded, penalised, with or without logprobs."""
    body = {"prompt": text_of(rng, rng.choice((1, 4, 12, 40, 90))), "max_tokens": rng.randint(tokens // 4, tokens)}
    body |= {"stream": True, "stream_options": {"include_usage": True}, "ignore_eos": True, "seed": number}
    body["temperature"] = 0 if number % 4 == 0 else 0.8
    if number % 3 == 0:
        body["logprobs"] = number % 5
    if number % 7 == 1:
        body |= {"top_p": 0.9, "top_k": 40}
    if number % 7 == 2:
        body |= {"repetition_penalty": 1.2, "presence_penalty": 0.5}
    return body


def essence(reply):
    """What of an answer must be the same each time. Fails where an event is lost or doubled."""
    answer = joined(reply.parsed())
    choice, tokens = answer["choices"][0], answer["usage"]["completion_tokens"]
    return (choice["text"], tuple(choice["logprobs"]), choice["finish_reason"], tokens)


# ---- soak ----


class Soak:
    """Streams that ask one request after another until the end of the time, each checked against its first answer."""

    def __init__(self, server, options):
        self.server, self.options = server, options
        rng = random.Random(7)
        self.bodies = [request(number, rng, options.tokens) for number in range(options.kinds)]
        self.expected, self.problems = {}, []
        self.counts = {"answers": 0, "tokens": 0, "events": 0, "refused": 0}
        self.memory = []

    async def stream(self, number, end):
        connection, rng = Connection(self.server.port), random.Random(number)
        while time.monotonic() < end and len(self.problems) < 20:
            kind = rng.randrange(len(self.bodies))
            reply = await connection.ask("/v1/completions", self.bodies[kind])
            if reply.status == 429:
                self.counts["refused"] += 1
                await asyncio.sleep(float(reply.headers["retry-after"]))
                continue
            self.check(kind, reply)
        connection.close()

    def check(self, kind, reply):
        try:
            if reply.status != 200 or reply.error:
                raise AssertionError(f"status {reply.status} {reply.error} {reply.body[:200]}")
            answer = essence(reply)
            if self.expected.setdefault(kind, answer) != answer:
                raise AssertionError(f"other bits than before: {self.expected[kind]} and {answer}")
            self.counts["answers"] += 1
            self.counts["tokens"] += answer[3]
            self.counts["events"] += len(reply.events)
        except (AssertionError, ValueError, KeyError, TypeError) as error:
            self.problems.append(f"request {kind}: {error}")

    async def watch(self, end):
        while time.monotonic() < end:
            self.memory.append((time.monotonic(), self.server.resident()))
            await asyncio.sleep(1)

    async def run(self):
        end = time.monotonic() + self.options.seconds
        streams = [self.stream(number, end) for number in range(self.options.streams)]
        await asyncio.gather(*streams, self.watch(end))


def soak(options, folder):
    with Server(options.model, *options.serve, folder=folder) as server:
        load = Soak(server, options)
        started = time.monotonic()
        asyncio.run(load.run())
        seconds = time.monotonic() - started
        stats = server.wait_idle(60)
    settled = [size for when, size in load.memory if when > started + options.warm_up]
    first, last = (statistics.mean(part) for part in (settled[:20], settled[-20:]))
    result = {
        **load.counts,
        "seconds": round(seconds, 1),
        "tokens_per_second": round(load.counts["tokens"] / seconds, 1),
        "kinds_asked_twice": load.counts["answers"] - len(load.expected),
        "resident_mib": {"after_warm_up": round(first / 2**20, 2), "end": round(last / 2**20, 2)},
        "drift": round(last / first - 1, 4),
        "server": {name: stats[name] for name in ("requests", "generation_tokens", "answers", "refused")},
        "engine": stats["engine"],
        "problems": load.problems,
    }
    bounds = {
        "no problems": not load.problems,
        "resident memory flat": abs(last / first - 1) <= MEMORY_DRIFT,
        "no token lost between server and clients": stats["generation_tokens"] == load.counts["tokens"],
        "the same request was asked again": result["kinds_asked_twice"] > 0,
    }
    return result, bounds


# ---- idle connections ----


def idle(options, folder):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, options.connections + 1000)), hard))
    with Server(options.model, *options.serve, folder=folder) as server:
        before = server.resident()
        connections = [server.socket() for _ in range(options.connections)]
        # Each has asked once, as a client's pool would have, and is kept alive.
        for connection in connections:
            connection.sendall(b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n")
            assert connection.recv(4096).startswith(b"HTTP/1.1 200")
        open_now = server.stats()["http"]["connections"]
        grown = server.resident() - before
        answered = server.ask("/v1/completions", {"prompt": "Hi", "max_tokens": 2})["usage"]["completion_tokens"]
        for connection in connections:
            connection.close()
        wait_until(lambda: server.stats()["http"]["connections"] < 10, 30, "the connections to be closed")
    result = {"connections": open_now, "grown_mib": round(grown / 2**20, 2), "each_bytes": grown // options.connections}
    bounds = {
        "all are open": open_now >= options.connections,
        "memory": grown < IDLE_BYTES,
        "a request is answered": answered == 2,
    }
    return result, bounds


# ---- throughput beside `eadem generate` ----


async def ask_all(port, bodies, streams):
    """Answers to all requests, `streams` at a time: (seconds, replies in order)."""
    replies, waiting = [None] * len(bodies), iter(range(len(bodies)))

    async def work():
        connection = Connection(port)
        for index in waiting:
            replies[index] = await connection.ask("/v1/completions", bodies[index])
        connection.close()

    started = time.monotonic()
    await asyncio.gather(*(work() for _ in range(streams)))
    return time.monotonic() - started, replies


def offline(options, bodies, folder):
    """Seconds and answers of `eadem generate` for the same requests in one run, without the time to load the model."""
    names = ("stream", "stream_options")
    lines = [{name: value for name, value in body.items() if name not in names} for body in bodies]

    def run(lines):
        (folder / "in.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        command = [program(), "generate", "-m", options.model, "--max-batch", str(options.streams)]
        command += ["--in", str(folder / "in.jsonl"), "--out", str(folder / "out.jsonl"), "--overwrite"]
        started = time.monotonic()
        subprocess.run(command + options.generate, check=True, stderr=subprocess.DEVNULL)
        return time.monotonic() - started

    loading = min(run([{"prompt": "a", "max_tokens": 1}]) for _ in range(2))
    seconds = run(lines) - loading
    return seconds, [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()]


# Where the time goes, by the names of functions; the first that fits.
ROOMS = {
    "kernels and operators": r"eadem::(kernels|ops|model|numerics|plan)\b",
    "waiting for the other workers": r"eadem::ThreadPool",
    "sampler": r"eadem::sampler",
    "http, JSON and text": r"eadem::(server|api|text)\b|boost::|nlohmann|SSL|tokenizers|eadem_text|serde|llguidance",
    "engine and scheduler": r"eadem::(engine|Engine|Service)\b",
    "kernel of the system": r"^$",
    "C and C++ library": r"",
}


def room_of(mode, symbol):
    if mode == "k":
        return "kernel of the system"
    return next(room for room, pattern in ROOMS.items() if re.search(pattern, symbol))


def profile(server, seconds, folder):
    """`perf record` of the server for a while; returns a function that gives the share of each room, in percent."""
    data = folder / "perf.data"
    command = ["perf", "record", "-q", "-F", "499", "-p", str(server.pid), "-o", str(data)]
    recorder = subprocess.Popen([*command, "--", "sleep", str(seconds)], stderr=subprocess.DEVNULL)

    def report():
        recorder.wait(120)
        command = ["perf", "report", "-i", str(data), "--sort", "symbol", "--stdio", "-w", "400"]
        listing = subprocess.run(command, capture_output=True, text=True).stdout
        shares = dict.fromkeys(ROOMS, 0.0)
        for line in listing.splitlines():
            row = re.match(r"\s*([\d.]+)%\s+\[(.)\] (\S.*)", line)
            if row:
                shares[room_of(row.group(2), row.group(3))] += float(row.group(1))
        return {room: round(share, 1) for room, share in shares.items()}

    return report


def throughput(options, folder):
    rng = random.Random(11)
    bodies = [request(number, rng, options.tokens) for number in range(options.requests)]
    rounds, shares, equal = [], None, True
    with Server(options.model, "--max-num-seqs", options.streams, *options.serve, folder=folder) as server:
        asyncio.run(ask_all(server.port, bodies[: options.streams], options.streams))  # warm-up
        for number in range(options.rounds):
            server.wait_idle()
            report = profile(server, options.perf, folder) if options.perf and number == 0 else None
            cpu = time.process_time()
            seconds, replies = asyncio.run(ask_all(server.port, bodies, options.streams))
            cpu = time.process_time() - cpu
            shares = report() if report else shares
            alone, answers = offline(options, bodies, folder)
            served = [essence(reply) for reply in replies]
            equal &= [answer["text"] for answer in answers] == [answer[0] for answer in served]
            tokens = sum(answer[3] for answer in served)
            rounds.append({"served": tokens / seconds, "offline": tokens / alone, "client_cpu_share": cpu / seconds})
    ratios = sorted(entry["served"] / entry["offline"] for entry in rounds)
    result = {
        "tokens_per_second": rounds,
        "ratio": {"median": statistics.median(ratios), "least": ratios[0], "largest": ratios[-1]},
        "profile": shares,
    }
    return result, {"ratio": result["ratio"]["median"] >= THROUGHPUT_RATIO, "the same text as offline": equal}


# ---- latency between tokens ----


async def steady(port, number, stop, gaps):
    """One stream after another, each gap between two events noted with its time."""
    connection = Connection(port)
    body = {"prompt": WORDS[number] + " and", "max_tokens": 200, "temperature": 0, "ignore_eos": True, "stream": True}
    while not stop.is_set():
        reply = await connection.ask("/v1/completions", body)
        assert reply.status == 200 and not reply.error, reply
        times = reply.times[:-1]
        gaps += [(after, after - before) for before, after in zip(times, times[1:])]
    connection.close()


async def latency_run(server, options):
    stop, gaps, spans, firsts = asyncio.Event(), [], [], []
    tasks = [asyncio.create_task(steady(server.port, n, stop, gaps)) for n in range(options.steady)]
    await asyncio.sleep(5)
    alone = (time.monotonic(), time.monotonic() + options.seconds)
    await asyncio.sleep(options.seconds)
    rng, connection, end = random.Random(3), Connection(server.port), time.monotonic() + options.seconds
    while time.monotonic() < end:
        ids = [rng.randrange(1000, 20000) for _ in range(options.prompt)]  # never in the prefix cache
        began = time.monotonic()
        body = {"prompt": ids, "max_tokens": 2, "temperature": 0, "stream": True}
        reply = await connection.ask("/v1/completions", body)
        assert reply.status == 200 and not reply.error, reply
        spans.append((began, time.monotonic()))
        firsts.append(reply.times[0] - began)
    stop.set()
    await asyncio.gather(*tasks)
    return (
        [gap for when, gap in gaps if alone[0] < when < alone[1]],
        [gap for when, gap in gaps if any(began < when < ended for began, ended in spans)],
        firsts,
    )


def latency(options, folder):
    with Server(options.model, *options.serve, folder=folder) as server:
        alone, beside, firsts = asyncio.run(latency_run(server, options))
        engine = server.wait_idle()["engine"]

    def summary(gaps):
        return {f"p{p}": round(percentile(gaps, p) * 1000, 1) for p in (50, 90, 99)} | {"count": len(gaps)}

    ratio = percentile(beside, 99) / percentile(alone, 99)
    result = {
        "milliseconds": {"alone": summary(alone), "while_prompts_arrive": summary(beside)},
        "p99_ratio": round(ratio, 2),
        "time_to_first_token_of_long_prompts": [round(seconds, 2) for seconds in firsts],
        "prompt_tokens": options.prompt,
        "engine": engine,
    }
    return result, {"p99": ratio <= LATENCY_RATIO, "prompts came": len(firsts) >= 2}


# ---- disconnect ----


def disconnect(options, folder):
    times = []
    body = {"prompt": "On and on", "max_tokens": 2000, "temperature": 0, "ignore_eos": True}
    with Server(options.model, *options.serve, folder=folder) as server:
        for _ in range(options.rounds):
            streams = [server.stream("/v1/completions", body) for _ in range(options.steady)]
            for stream in streams:
                stream.next()
            began = time.monotonic()
            for stream in streams:
                stream.close()
            server.wait_idle(10)
            times.append(time.monotonic() - began)
    milliseconds = sorted(round(seconds * 1000, 1) for seconds in times)
    return {"milliseconds": milliseconds, "streams": options.steady}, {"100 ms": milliseconds[-1] <= 100}


# ---- the command line ----


def parse(arguments):
    serve = arguments[arguments.index("--") + 1 :] if "--" in arguments else []
    arguments = arguments[: arguments.index("--")] if "--" in arguments else arguments
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["soak", "idle", "throughput", "latency", "disconnect"])
    parser.add_argument("-m", "--model", default=os.environ.get("EADEM_SMOLLM2", "smollm2-135m"))
    parser.add_argument("--streams", type=int, help="at once (soak 500, throughput 32)")
    parser.add_argument("--seconds", type=float, help="of load (soak 300, latency 30 each)")
    parser.add_argument("--warm-up", type=float, default=60, help="seconds before memory must be flat")
    parser.add_argument("--tokens", type=int, default=64, help="most tokens of an answer")
    parser.add_argument("--kinds", type=int, default=64, help="different requests of soak")
    parser.add_argument("--requests", type=int, default=128, help="of a round of throughput")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--connections", type=int, default=2000)
    parser.add_argument("--steady", type=int, default=8, help="streams of latency and disconnect")
    parser.add_argument("--prompt", type=int, default=4096, help="tokens of a long prompt")
    parser.add_argument("--perf", type=int, default=0, help="seconds of a profile of the first round; 0: none")
    parser.add_argument("--generate", default="", help="options of `eadem generate`, in one word")
    options = parser.parse_args(arguments)
    options.serve, options.generate = serve, options.generate.split()
    options.streams = options.streams or (500 if options.what == "soak" else 32)
    options.seconds = options.seconds or (300 if options.what == "soak" else 30)
    return options


def main(arguments):
    options = parse(arguments)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="eadem-load-"))
    try:
        result, bounds = globals()[options.what](options, folder)
    finally:
        shutil.rmtree(folder)
    print(json.dumps({"what": options.what, **result, "bounds": bounds}, indent=1))
    return 0 if all(bounds.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

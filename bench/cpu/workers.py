"""The processes that are measured: started with a model, told what to time, stopped (SIGSTOP) while others have a turn.

A process that waits must not disturb the one that is measured, and thread pools of some engines spin for a while after
their work; a stopped process cannot.
"""

import asyncio
import json
import math
import os
import pathlib
import random
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))
sys.path.insert(0, str(ROOT / "bench" / "serving"))

from client import Connection  # noqa: E402
from serving import Server  # noqa: E402

LOAD_SECONDS, COMMAND_SECONDS = 600, 1800


class WorkerError(Exception):
    """The engine cannot do this: the text stands in the cell instead of a figure."""


class OutOfTime(WorkerError):
    """The whole run's time is over."""


class Process:
    """A process that speaks the protocol of bench/cpu/worker.cc on its stdin and stdout. end: when the run's time is
    over, and with it whatever is asked."""

    def __init__(self, command, environment=None, end=math.inf):
        self.end = end
        self.log = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        self.process = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            env={**os.environ, **(environment or {})},
        )
        self.buffer = b""
        try:
            self.description = self._read(LOAD_SECONDS)
        except WorkerError:
            self.close()
            raise
        self.sleep()

    def _read(self, seconds):
        end = min(time.monotonic() + seconds, self.end)
        while b"\n" not in self.buffer:
            ready, _, _ = select.select([self.process.stdout], [], [], max(0, end - time.monotonic()))
            if not ready:
                self.process.kill()  # it is not known in which state it is: nothing more is measured with it
                if end == self.end:
                    raise OutOfTime("left out: the run's time was over")
                raise WorkerError(f"no answer within {seconds} s")
            piece = os.read(self.process.stdout.fileno(), 1 << 16)
            if not piece:
                raise WorkerError(f"ended with {self.process.wait()}: {self._last_words()}")
            self.buffer += piece
        line, self.buffer = self.buffer.split(b"\n", 1)
        answer = json.loads(line)
        if "error" in answer:
            raise WorkerError(answer["error"])
        return answer

    def _last_words(self):
        self.log.seek(0)
        lines = self.log.read().decode(errors="replace").split("\n")
        return " / ".join(line for line in lines if line.strip())[-300:]

    def sleep(self):
        self.process.send_signal(signal.SIGSTOP)

    def wake(self):
        self.process.send_signal(signal.SIGCONT)

    def ask(self, what, **arguments):
        """Seconds that the engine says it took. The process is awake from here until sleep()."""
        if self.process.poll() is not None:
            raise WorkerError(f"ended with {self.process.returncode}: {self._last_words()}")
        self.process.stdin.write(json.dumps({"do": what, **arguments}).encode() + b"\n")
        self.process.stdin.flush()
        return self._read(COMMAND_SECONDS).get("seconds", 0.0)

    def resident(self):
        return status_bytes(self.process.pid, "VmHWM")

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
        self.log.close()


def status_bytes(pid, field):
    """Bytes of a field of /proc/PID/status; 0 where the process is gone."""
    try:
        lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(field + ":")), 0)


class Serving:
    """`eadem serve` under streams that begin together; decoding is timed between the last stream's first token and the
    first stream's end."""

    def __init__(self, model, options):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="eadem-bench-"))
        start = time.monotonic()
        self.server = Server(model, *options, folder=self.folder)
        try:
            self.server.start()
        except AssertionError as error:
            shutil.rmtree(self.folder)
            raise WorkerError(str(error)[-300:]) from None
        self.description = {"engine": "eadem serve", "load_seconds": time.monotonic() - start, "settings": {}}
        self.sleep()

    def sleep(self):
        self.server.process.send_signal(signal.SIGSTOP)

    def wake(self):
        self.server.process.send_signal(signal.SIGCONT)

    def rate(self, streams, context, steps, seed):
        """Tokens a second over all streams."""
        rng = random.Random(seed)
        # Those that begin first draw tokens while the last prompts are read: they must not end before.
        body = {"max_tokens": 2 * steps + 2 * streams, "temperature": 0, "ignore_eos": True, "stream": True}
        body["stream_options"] = {"include_usage": True}
        prompts = [[rng.randrange(1000, 20000) for _ in range(context)] for _ in range(streams)]

        async def one(prompt):
            connection = Connection(self.server.port)
            reply = await connection.ask("/v1/completions", {**body, "prompt": prompt})
            connection.close()
            return reply

        async def everything():
            return await asyncio.gather(*(one(prompt) for prompt in prompts))

        return decode_rate(asyncio.run(everything()))

    def resident(self):
        return status_bytes(self.server.pid, "VmHWM")

    def close(self):
        self.server.kill()
        shutil.rmtree(self.folder)


def decode_rate(replies):
    """Tokens a second of streams while all of them decode. An event may carry no token or several, so that events are
    weighed by what the stream's usage says."""
    spans = []
    for reply in replies:
        if reply.error or reply.status != 200:
            raise WorkerError(f"status {reply.status} {reply.error} {reply.body[:200]!r}")
        events = reply.parsed()
        tokens = events[-1]["usage"]["completion_tokens"]
        times = [when for when, event in zip(reply.times, events, strict=False) if event["choices"]]
        spans.append((tokens / len(times), times))
    begin, end = max(times[0] for _, times in spans), min(times[-1] for _, times in spans)
    if end <= begin:
        raise WorkerError("a stream ended before the last one began")
    drawn = sum(weight * sum(begin < when <= end for when in times) for weight, times in spans)
    return drawn / (end - begin)


# Settings of the peers that are worth a try: which is fastest depends on the machine (run.py, tune).
VARIANTS = {
    "llama.cpp": [["--flash", "on"], ["--flash", "off"]],
    "OpenVINO": [["--kv", "u8"], ["--kv", "bf16"]],
}


class Launcher:
    """Starts what a contender needs. options: the harness's command line; end: when the run's time is over."""

    def __init__(self, options, end=math.inf):
        self.options, self.end = options, end
        self.settings = {}  # contender: the variant that tune() chose
        self.quiet = {}
        if options.busy:  # their spinning threads collapse where other work has the cores
            self.quiet = {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "0", "KMP_BLOCKTIME": "0"}

    def start(self, contender, lineup, path, rounds, variant=None):
        options = self.options
        if contender.engine == "serve":
            words = ["--numerics", contender.numerics, "--threads", lineup.threads, "--max-num-seqs", 32]
            return Serving(path, [*words, *(["--isa", options.isa] if options.isa else [])])
        size = ["--threads", lineup.threads, "--rows", lineup.rows(), "--positions", lineup.positions(rounds)]
        if contender.engine == "eadem":
            isa = ["--isa", options.isa] if options.isa else []
            command = [options.worker, "-m", path, "--numerics", contender.numerics, *size, *isa]
            return Process(command, end=self.end)
        if contender.engine == "llama.cpp":
            python, script = options.llama_python, "llama_cpp_worker.py"
        else:
            python, script = options.openvino_python, "openvino_worker.py"
        if not python or not pathlib.Path(python).exists():
            raise WorkerError("not installed here (bench/peers/setup.sh)")
        words = self.settings.get(contender, []) if variant is None else variant
        return Process([python, ROOT / "bench" / "peers" / script, path, *size, *words], self.quiet, self.end)

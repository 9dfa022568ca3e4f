"""Starts `eadem serve`, talks to it with the standard library alone, reads its metrics, and insists on a clean end.

    with Server(model, "--max-batch", "4", folder=tmp_path) as server:
        status, headers, answer = server.post("/v1/completions", {"prompt": "Hi", "max_tokens": 4})
        for event in server.stream("/v1/completions", {...}): ...

Leaving the block sends SIGTERM and asserts that the process drains and exits with 0; what it wrote to stderr is in
`server.log()`. The program is EADEM, or build/eadem.
"""

import contextlib
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import ssl
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
FIXTURE_MODELS = ROOT / "tests" / "accuracy" / "fixtures" / "models"
# Bounds of what never takes so long: whoever waits for less fails on a busy machine.
START_SECONDS = 600
STOP_SECONDS = 600
PATIENCE = 600
ADDRESS = re.compile(r"https?://(?:\[[0-9a-f:]+\]|[\w.-]+):(\d+)")


def program():
    return os.environ.get("EADEM", str(ROOT / "build" / "eadem"))


def wait_until(condition, seconds, what, pause=0.005):
    """The first true value of condition(); an assertion that names `what` where there is none in time."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, f"waited {seconds} s for {what}"
        time.sleep(pause)


_kept_ports = []


def free_port():
    """A TCP port that nobody listens on. The system gives it to nobody else for as long as this process lives: a socket
    that is bound to it and does not listen leaves it to those who ask for it by number."""
    kept = socket.socket()
    kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    kept.bind(("127.0.0.1", 0))
    _kept_ports.append(kept)
    return kept.getsockname()[1]


def memory_of(pid, field="VmRSS"):
    """Bytes of a field of /proc/PID/status."""
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"process {pid} has no {field}")


def parse_metrics(text):
    """Prometheus text as {"name{labels}": value}; fails on a line that is neither a comment nor a sample."""
    samples = {}
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        match = re.fullmatch(r"([a-zA-Z_:][\w:]*(?:\{.*\})?) (\S+)(?: \d+)?", line)
        assert match, f"not a sample: {line!r}"
        assert match.group(1) not in samples, f"twice: {line!r}"
        samples[match.group(1)] = float(match.group(2))
    return samples


def metric(samples, name):
    """The sum over all labels of one metric."""
    found = [value for key, value in samples.items() if key == name or key.startswith(name + "{")]
    assert found, f"no metric {name}; there are {sorted({key.split('{')[0] for key in samples})}"
    return sum(found)


def sse_events(lines):
    """The `data:` payloads of an event stream, as text; fails on anything that is not an event or a comment."""
    data = []
    for raw in lines:
        line = raw.decode().rstrip("\r\n")
        if line.startswith("data:"):
            data.append(line[5:].removeprefix(" "))
        elif line == "":
            if data:
                yield "\n".join(data)
            data = []
        else:
            assert line.startswith(":"), f"not an event: {line!r}"
    assert not data, f"the stream ends inside an event: {data}"


class Stream:
    """One streamed reply: iterate over its events (dicts, [DONE] checked and left out), or close it in the middle."""

    def __init__(self, connection, response):
        self.connection, self.response = connection, response
        self.done = False

    def __iter__(self):
        for data in sse_events(iter(self.response.readline, b"")):
            assert not self.done, f"an event after [DONE]: {data}"
            if data == "[DONE]":
                self.done = True
            else:
                yield json.loads(data)
        assert self.done, "the stream ended without [DONE]"
        self.connection.close()

    def next(self):
        """One event more, leaving the stream open."""
        return json.loads(next(sse_events(iter(self.response.readline, b""))))

    def close(self):
        """Goes away as a killed client does: the socket is shut while the server still writes."""
        # http.client hands the socket to the response where the connection is not to be kept.
        self.connection.close()
        self.response.close()


def servers_of(tmp_path, default_model):
    """For a fixture: yields what starts servers with options, of `default_model` where none is named; each must end
    cleanly."""
    started = []

    def start(*options, model=default_model, port=0, **arguments):
        server = Server(model, *options, folder=tmp_path / f"server{len(started)}", **arguments)
        started.append(server.start(port))
        return server

    yield start
    try:
        for server in started:
            server.stop()
    finally:
        for server in started:
            server.kill()


class Server:
    """`eadem serve -m MODEL --port 0 OPTIONS...` as a process of its own."""

    def __init__(self, model, *options, folder, environment=None, command=None, before=(), scheme="http"):
        self.model, self.options, self.folder = model, [str(option) for option in options], pathlib.Path(folder)
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("EADEM")}
        self.environment["EADEM_CACHE"] = str(self.folder / "cache")
        self.environment.update(environment or {})
        self.command = command or [*before, program(), "serve", "-m", str(model)]
        self.process, self.port, self.key, self.name = None, 0, None, None
        self.scheme = scheme

    # ---- the process ----

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, kind, error, trace):
        if kind is not None:
            with contextlib.suppress(OSError):
                print(f"---- {self.command[0]} wrote ----\n{self.log()[-4000:]}", file=sys.stderr)
            self.kill()
        else:
            self.stop()

    def start(self, port=0):
        self.folder.mkdir(parents=True, exist_ok=True)
        self.log_file = self.folder / f"serve-{time.monotonic_ns()}.log"
        with open(self.log_file, "wb") as log:
            self.process = subprocess.Popen(
                [*self.command, "--port", str(port), *self.options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self.environment,
            )
        try:
            wait_until(self._listening, START_SECONDS, "an address in the log", 0.02)
            wait_until(self._healthy, START_SECONDS, "/health", 0.02)
        except BaseException:
            self.kill()
            raise
        return self

    def _listening(self):
        assert self.process.poll() is None, f"ended with {self.process.returncode}: {self.log()}"
        match = ADDRESS.search(self.log())
        self.port = int(match.group(1)) if match else 0
        return self.port

    def _healthy(self):
        assert self.process.poll() is None, f"ended with {self.process.returncode}: {self.log()}"
        try:
            return self.get("/health")[0] == 200
        except OSError:
            return False

    def stop(self, seconds=STOP_SECONDS):
        """SIGTERM; the process must drain and exit with 0."""
        if self.process is None:
            return
        assert self.process.poll() is None, f"ended by itself with {self.process.returncode}: {self.log()[-4000:]}"
        self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"did not end within {seconds} s of SIGTERM: {self.log()[-4000:]}") from None
        assert status == 0, f"exit status {status}: {self.log()[-4000:]}"
        self.process = None

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def log(self):
        return self.log_file.read_text(errors="replace")

    @property
    def pid(self):
        return self.process.pid

    def resident(self):
        return memory_of(self.pid)

    def open_files(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    # ---- requests ----

    @property
    def url(self):
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def connect(self, timeout=PATIENCE):
        if self.scheme == "https":
            context = ssl._create_unverified_context()  # it is a certificate of the test's own
            return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=timeout, context=context)
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def socket(self, timeout=PATIENCE):
        """A bare TCP connection."""
        return socket.create_connection(("127.0.0.1", self.port), timeout)

    def _send(self, connection, method, path, body, headers):
        headers = dict(headers or {})
        if self.key:
            headers.setdefault("Authorization", f"Bearer {self.key}")
        if body is not None and not isinstance(body, (bytes, str)):
            body = json.dumps(body)
        if body is not None:
            headers.setdefault("Content-Type", "application/json")
        connection.request(method, path, body.encode() if isinstance(body, str) else body, headers)
        return connection.getresponse()

    def request(self, method, path, body=None, headers=None, timeout=PATIENCE):
        """(status, headers in lower case, body: parsed where it is JSON, else bytes)."""
        with contextlib.closing(self.connect(timeout)) as connection:
            response = self._send(connection, method, path, body, headers)
            content = response.read()
            fields = {name.lower(): value for name, value in response.getheaders()}
            if fields.get("content-type", "").startswith("application/json"):
                content = json.loads(content)
            return response.status, fields, content

    def get(self, path, **options):
        return self.request("GET", path, **options)

    def post(self, path, body, **options):
        return self.request("POST", path, body, **options)

    def ask(self, path, body, **options):
        """The answer to a request that must succeed."""
        status, _, answer = self.post(path, body, **options)
        assert status == 200, (status, answer)
        return answer

    def stream(self, path, body, headers=None, timeout=PATIENCE):
        """Opens a streamed reply, which must start with 200 and text/event-stream."""
        connection = self.connect(timeout)
        response = self._send(connection, "POST", path, {**body, "stream": True}, headers)
        if response.status != 200:
            content = response.read()
            connection.close()
            raise AssertionError((response.status, content))
        assert response.getheader("Content-Type", "").startswith("text/event-stream"), response.getheaders()
        return Stream(connection, response)

    def metrics(self):
        status, headers, text = self.get("/metrics")
        assert status == 200 and headers["content-type"].startswith("text/plain"), (status, headers)
        return parse_metrics(text.decode())

    def metric(self, name):
        return metric(self.metrics(), name)

    def stats(self):
        """GET /v1/stats: counts and the moment's state (src/server/metrics.h)."""
        return self.ask_get("/v1/stats")

    def ask_get(self, path):
        status, _, answer = self.get(path)
        assert status == 200, (status, answer)
        return answer

    def wait_ended(self, reason, count, seconds=PATIENCE):
        """Until so many answers have ended for this reason, and never more: an answer is counted when its reply has
        ended, which may be a moment after the engine is idle."""

        def ended():
            found = self.stats()["answers"][reason]
            assert found <= count, f"{found} answers ended by {reason}, not {count}"
            return found == count

        wait_until(ended, seconds, f"{count} answers to end by {reason}")

    def wait_idle(self, seconds=PATIENCE):
        """Until nothing runs, waits or holds KV blocks; the stats then."""

        def idle():
            stats = self.stats()
            return stats if not (stats["running"] or stats["waiting"] or stats["kv_blocks_used"]) else None

        return wait_until(idle, seconds, "an idle server")

    def model_name(self):
        """What `model` of a request must say."""
        if self.name is None:
            self.name = self.get("/v1/models")[2]["data"][0]["id"]
        return self.name


def joined(events):
    """What a stream of completions or chat completions says, by choice index.

    Each is {"text", "tokens", "logprobs", "finish_reason", "events"}. Fails where a choice goes on after its
    finish_reason or has none, where id, model or fingerprint change, where text offsets go back, or where there are
    more or fewer tokens than usage says (a lost or a doubled event).
    """
    choices, constant, usage = {}, None, None
    for event in events:
        same = tuple(event.get(name) for name in ("id", "object", "created", "model", "system_fingerprint"))
        assert constant in (None, same), (constant, same)
        constant = same
        assert usage is None, f"an event after usage: {event}"
        if not event["choices"]:
            usage = event["usage"]
        for choice in event["choices"]:
            _join(choices.setdefault(choice["index"], _new_choice()), choice)
    for index, choice in choices.items():
        assert choice["finish_reason"], f"choice {index} did not finish"
    assert sorted(choices) == list(range(len(choices))), sorted(choices)
    if usage and all(choice["tokens"] or not choice["text"] for choice in choices.values()):
        counted = sum(len(choice["tokens"]) for choice in choices.values())
        assert counted == usage["completion_tokens"], (counted, usage)
    return {"id": constant[0], "choices": choices, "usage": usage}


def _new_choice():
    return {"text": "", "tokens": [], "logprobs": [], "finish_reason": None, "events": 0, "offset": None}


def _join(state, choice):
    assert state["finish_reason"] is None, f"a choice goes on after its end: {choice}"
    state["events"] += 1
    if "delta" in choice:
        state["text"] += choice["delta"].get("content") or ""
        for entry in (choice.get("logprobs") or {}).get("content") or []:
            state["tokens"].append(entry["token"])
            state["logprobs"].append(entry["logprob"])
    else:
        state["text"] += choice["text"]
        _join_lists(state, choice.get("logprobs"))
    state["finish_reason"] = choice["finish_reason"]


def _join_lists(state, logprobs):
    if not logprobs:
        return
    tokens, offsets = logprobs["tokens"], logprobs["text_offset"]
    assert len(tokens) == len(logprobs["token_logprobs"]) == len(offsets), logprobs
    for offset in offsets:
        assert state["offset"] is None or offset >= state["offset"], (state["offset"], offset)
        state["offset"] = offset
    state["tokens"] += tokens
    state["logprobs"] += logprobs["token_logprobs"]

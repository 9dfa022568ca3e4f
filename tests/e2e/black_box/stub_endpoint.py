"""Endpoints of all kinds for the black-box matrix, in a few lines: how they run requests, and what is wrong with them.

A stub's answers are numbers made from the prompt. Its engine is one thread that takes steps: `together` gives each
running request a token in every step, `one` works on the oldest alone. What a step drew is sent before the next step,
so that clients see what ran when, however busy the machine is. `variant` makes a logprob depend on how many run;
`counts` lets only the gauge do so.
"""

import contextlib
import hashlib
import http.server
import json
import queue
import random
import threading
import time

WORDS = ("la", "ti", "do", "re", "mi", "fa", "so")


class Stub:
    """Options: way (together, one), variant, fault, key, logprobs, metrics, context."""

    def __init__(self, way="together", variant=False, fault="", key="", logprobs=True, metrics=False, step=0.001):
        self.way, self.variant, self.fault, self.key = way, variant, fault, key
        self.logprobs, self.metrics, self.step = logprobs, metrics, step
        self.running, self.lock, self.stopped = [], threading.Condition(), False
        self.posts, self.most_running, self.times = 0, 0, []

    # ---- the engine ----

    def run(self):
        while not self.stopped:
            with self.lock:
                self.lock.wait_for(lambda: self.running or self.stopped)
                now = self.running[:1] if self.way == "one" else list(self.running)
                self.most_running = max(self.most_running, len(now))
                for request in now:
                    self._draw(request, len(now))
                self.running = [request for request in self.running if request["left"] > 0]
            time.sleep(self.step)
            while not self.stopped and any(self._is_owed(request) for request in now):
                time.sleep(0.0002)

    @staticmethod
    def _is_owed(request):
        """Whether something that was drawn is not sent yet, and somebody still reads."""
        return request["out"].unfinished_tasks > 0 and not request["gone"]

    @staticmethod
    def drawn(request):
        """What is drawn for a request; each is sent when the next is asked for."""
        try:
            while (one := request["out"].get()) is not None:
                yield one
                request["out"].task_done()
        finally:
            request["gone"] = True

    def _draw(self, request, together):
        request["left"] -= 1
        drawn = request["random"].random()
        logprob = -drawn - (1e-6 * together if self.variant and together > 1 else 0)
        request["out"].put((WORDS[int(drawn * len(WORDS))], logprob))
        if request["left"] == 0:
            request["out"].put(None)

    def submit(self, body):
        text = json.dumps([body.get("prompt"), body.get("messages"), body.get("temperature"), body.get("seed")])
        digest = hashlib.sha256(text.encode()).digest()
        if body.get("temperature") and body.get("seed") is None:
            digest = random.randbytes(8)
        request = {"left": body.get("max_tokens", 16), "random": random.Random(digest), "out": queue.Queue()}
        request["gone"] = False
        with self.lock:
            self.running.append(request)
            self.lock.notify_all()
        return request

    # ---- the wire ----

    def __enter__(self):
        handler = type("Bound", (Handler,), {"stub": self})
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.threads = [threading.Thread(target=work, daemon=True) for work in (self.run, self.server.serve_forever)]
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stopped = True
        with self.lock:
            self.lock.notify_all()
        self.server.shutdown()
        self.server.server_close()


class Handler(http.server.BaseHTTPRequestHandler):
    stub = None

    def log_message(self, *_):
        pass

    def _send(self, status, data, kind="application/json", **headers):
        data = data if isinstance(data, bytes) else json.dumps(data).encode()
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": len(data), **headers}.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        self.wfile.write(data)

    def _refused(self):
        if self.stub.key and self.headers.get("Authorization") != f"Bearer {self.stub.key}":
            self._send(401, {"error": {"message": "no such key"}})
            return True
        return False

    def do_GET(self):
        if self._refused():
            return
        if self.path == "/v1/models":
            self._send(200, {"data": [{"id": "stub", "max_model_len": 4096}]})
        elif self.path == "/metrics" and self.stub.metrics:
            self._send(200, f"vllm:num_requests_running {len(self.stub.running)}\n".encode(), "text/plain")
        else:
            self._send(404, {"detail": "Not Found"})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        stub = self.stub
        stub.posts += 1
        stub.times.append(time.monotonic())
        if self._refused():
            return
        fault = FAULTS.get(stub.fault)
        if fault and fault(self, body):
            return
        if self.path != "/v1/completions":
            self._send(404, {"detail": "Not Found"})
        elif set(body) & {"return_token_ids", "ignore_eos", "n", "echo"} or not isinstance(body["prompt"], str):
            self._send(400, {"error": {"message": "unknown field"}})
        else:
            with contextlib.suppress(OSError):
                self._answer(body)

    def _choice(self, body, drawn, reason):
        choice = {"index": 0, "text": "".join(f"{word} " for word, _ in drawn), "finish_reason": reason}
        if self.stub.logprobs and body.get("logprobs") is not None:
            choice["logprobs"] = {
                "tokens": [word for word, _ in drawn],
                "token_logprobs": [logprob for _, logprob in drawn],
            }
        return {"choices": [choice], "model": "stub"}

    def _answer(self, body):
        answer = self.stub.drawn(self.stub.submit(body))
        if not body.get("stream"):
            drawn = list(answer)
            usage = {"prompt_tokens": len(body["prompt"].split()), "completion_tokens": len(drawn)}
            return self._send(200, {**self._choice(body, drawn, "length"), "usage": usage})
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for one in answer:
            self.wfile.write(f"data: {json.dumps(self._choice(body, [one], None))}\n\n".encode())
        self.wfile.write(f"data: {json.dumps(self._choice(body, [], 'length'))}\n\ndata: [DONE]\n\n".encode())


# ---- what can be wrong: each returns whether it answered ----


def garbage(handler, _body):
    handler._send(200, b"<html>It works!</html>", "text/html")
    return True


def deep(handler, _body):
    handler._send(200, b'{"choices": ' + b"[" * 200000 + b"]" * 200000 + b"}")
    return True


def failing(handler, _body):
    handler._send(500, {"error": {"message": "out of cheese"}})
    return True


def busy_for_long(handler, _body):
    handler._send(429, {"error": {"message": "too many"}}, Retry_After=3600)
    return True


def busy_twice(handler, _body):
    if handler.stub.posts > 2:
        return False
    handler._send(429, {"error": {"message": "too many"}}, Retry_After=1)
    return True


def silent(handler, _body):
    while not handler.stub.stopped:
        time.sleep(0.05)
    return True


def endless(handler, _body):
    """Bytes for ever, which never become an answer."""
    handler.send_response(200)
    handler.end_headers()
    with contextlib.suppress(OSError):
        while not handler.stub.stopped:
            handler.wfile.write(b" " * (1 << 20))
    return True


def unknown_model(handler, _body):
    handler._send(404, {"error": {"message": "The model `stub` does not exist."}})
    return True


def cut_in_company(handler, body):
    """A stream that ends in the middle where others run."""
    if not body.get("stream") or len(handler.stub.running) < 3:
        return False
    handler.send_response(200)
    handler.end_headers()
    handler.wfile.write(b'data: {"choices": [{"index": 0, "text": "la ", "finish_reason": null}]}\n\ndata: {"cho')
    return True


def moved(handler, _body):
    handler._send(307, b"", Location="http://127.0.0.1:1/elsewhere")
    return True


FAULTS = {
    "garbage": garbage,
    "deep": deep,
    "failing": failing,
    "busy for long": busy_for_long,
    "busy twice": busy_twice,
    "silent": silent,
    "endless": endless,
    "unknown model": unknown_model,
    "cut in company": cut_in_company,
    "moved": moved,
}

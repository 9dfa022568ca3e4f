"""A server that only looks like one: it says its prompt's words again. What harness and load generator are tested on.

usage: fake_server.py serve -m MODEL --port 0 [--fault FAULT]

FAULT spoils the streams: `lost` leaves an event out, `doubled` sends one twice, `no-done` leaves out the end,
`changed` answers the same request differently each time, `cut` closes in the middle, `dirty` exits with 3.
"""

import argparse
import http.server
import itertools
import json
import signal
import sys
import threading

COUNT = itertools.count(1)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    fault = ""

    def log_message(self, *_):
        pass

    def do_GET(self):  # noqa: N802 (the name is http.server's)
        if self.path == "/v1/models":
            self.answer({"object": "list", "data": [{"id": "fake", "object": "model"}]})
        elif self.path == "/metrics":
            self.answer(f'# TYPE eadem_requests_total counter\neadem_requests_total{{path="/"}} {next(COUNT)}\n')
        else:
            self.answer({"status": "ok"})

    def answer(self, body, status=200):
        kind = "text/plain" if isinstance(body, str) else "application/json"
        data = (body if isinstance(body, str) else json.dumps(body)).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_POST(self):  # noqa: N802
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        words = (request.get("prompt") or request["messages"][-1]["content"]).split()[: request.get("max_tokens", 16)]
        if self.fault == "changed":
            words = [f"{word}{next(COUNT)}" for word in words]
        pieces = [word + " " for word in words]
        usage = {"prompt_tokens": 1, "completion_tokens": len(pieces), "total_tokens": 1 + len(pieces)}
        head = {"id": f"cmpl-{next(COUNT)}", "object": "text_completion", "created": 1, "model": "fake"}
        if not request.get("stream"):
            choice = {"index": 0, "text": "".join(pieces), "finish_reason": "length"}
            self.answer({**head, "choices": [choice], "usage": usage})
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        events = list(self.events(pieces, head, usage))
        if self.fault == "lost":
            del events[1]
        elif self.fault == "doubled":
            events.insert(1, events[1])
        elif self.fault == "no-done":
            events.pop()
        elif self.fault == "cut":
            del events[2:]
        for event in events:
            data = f"data: {event}\n\n".encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        if self.fault == "cut":
            self.close_connection = True
        else:
            self.wfile.write(b"0\r\n\r\n")

    def events(self, pieces, head, usage):
        offset = 0
        for number, piece in enumerate(pieces):
            logprobs = {"tokens": [piece], "token_logprobs": [-0.5], "top_logprobs": [{}], "text_offset": [offset]}
            last = number + 1 == len(pieces)
            choice = {"index": 0, "text": piece, "logprobs": logprobs, "finish_reason": "length" if last else None}
            yield json.dumps({**head, "choices": [choice]})
            offset += len(piece)
        yield json.dumps({**head, "choices": [], "usage": usage})
        yield "[DONE]"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("command")
    parser.add_argument("-m")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--fault", default="")
    options = parser.parse_args()
    Handler.fault = options.fault
    server = http.server.ThreadingHTTPServer(("127.0.0.1", options.port), Handler)
    server.daemon_threads = True
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    print(f"listening on http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
    sys.exit(3 if options.fault == "dirty" else 0)


main()

#!/usr/bin/env python3
"""A small OpenAI-style server over llama.cpp that puts whatever runs into one batch: an engine without a contract.

    llama_batch_server.py MODEL.gguf --port 8000 [--slots 16] [--context 1024] [--threads 2]

One thread runs the engine: each step puts the next token of every running request, and parts of new prompts, into one
`llama_decode`. It is what a conventional server does, as short as it can be: /v1/models, /v1/completions (greedy or
seeded sampling, logprobs, token ids, streaming), /metrics with `llamacpp:requests_processing`. llama.cpp's threads
spin while they wait: set OMP_WAIT_POLICY=passive and GOMP_SPINCOUNT=0 on a small machine.
"""

import argparse
import ctypes
import http.server
import json
import queue
import random
import sys
import threading

import llama_cpp.llama_cpp as llama
import numpy


class Request:
    """One answer under way. What is drawn goes to `out`: (token id, text, logprob, likely tokens), then None."""

    def __init__(self, prompt, body):
        self.prompt = prompt
        self.most = body.get("max_tokens", 16)
        self.temperature = body.get("temperature", 1.0)
        self.random = random.Random(body.get("seed"))
        self.top = body.get("logprobs") or 0
        self.out = queue.Queue()
        self.read = self.drawn = 0
        self.slot = self.next_token = self.row = None
        self.gone = False

    def end(self):
        self.out.put(None)


class Engine:
    """llama.cpp's context, and the loop that feeds it."""

    def __init__(self, path, slots, context, threads, chunk=256):
        llama.llama_backend_init()
        self.model = llama.llama_model_load_from_file(path.encode(), llama.llama_model_default_params())
        if not self.model:
            sys.exit(f"{path}: cannot be loaded")
        parameters = llama.llama_context_default_params()
        parameters.n_ctx = slots * context
        parameters.n_batch = parameters.n_ubatch = slots + chunk
        parameters.n_seq_max = slots
        parameters.n_threads = parameters.n_threads_batch = threads
        self.context = llama.llama_init_from_model(self.model, parameters)
        self.memory = llama.llama_get_memory(self.context)
        self.vocabulary = llama.llama_model_get_vocab(self.model)
        self.vocabulary_size = llama.llama_vocab_n_tokens(self.vocabulary)
        self.batch = llama.llama_batch_init(slots + chunk, 0, 1)
        self.chunk, self.length = chunk, context
        self.free = list(range(slots))
        self.waiting, self.running = queue.Queue(), []
        self.steps = self.most_running = 0

    def tokenize(self, text):
        data = text.encode()
        tokens = (llama.llama_token * (len(data) + 8))()
        count = llama.llama_tokenize(self.vocabulary, data, len(data), tokens, len(tokens), True, False)
        return list(tokens[:count])

    def piece(self, token):
        buffer = ctypes.create_string_buffer(256)
        count = llama.llama_token_to_piece(self.vocabulary, token, buffer, len(buffer), 0, True)
        return buffer.raw[: max(count, 0)].decode(errors="replace")

    def run(self):
        while True:
            self._admit()
            self._step()

    def _admit(self):
        while self.free and (not self.waiting.empty() or not self.running):
            request = self.waiting.get()
            request.slot = self.free.pop()
            llama.llama_memory_seq_rm(self.memory, request.slot, -1, -1)
            self.running.append(request)

    def _add(self, token, position, slot, wanted):
        i = self.batch.n_tokens
        self.batch.token[i], self.batch.pos[i] = token, position
        self.batch.n_seq_id[i], self.batch.seq_id[i][0] = 1, slot
        self.batch.logits[i] = wanted
        self.batch.n_tokens = i + 1
        return i

    def _fill(self):
        """The next token of who draws, and prompts as far as the chunk reaches."""
        self.batch.n_tokens = 0
        for request in self.running:
            if request.next_token is not None:
                position = len(request.prompt) + request.drawn - 1
                request.row = self._add(request.next_token, position, request.slot, True)
        left = self.chunk
        for request in self.running:
            request.row = None if request.next_token is None else request.row
            while request.read < len(request.prompt) and left > 0:
                last = request.read + 1 == len(request.prompt)
                row = self._add(request.prompt[request.read], request.read, request.slot, last)
                request.row = row if last else None
                request.read += 1
                left -= 1

    def _step(self):
        self.running = [request for request in self.running if not self._ended(request)]
        if not self.running:
            return
        self._fill()
        status = llama.llama_decode(self.context, self.batch)
        assert status == 0, f"llama_decode: {status}"
        self.steps += 1
        self.most_running = max(self.most_running, len(self.running))
        for request in self.running:
            if request.row is not None:
                self._draw(request)

    def _ended(self, request):
        if not request.gone and request.drawn < request.most:
            return False
        request.end()
        self.free.append(request.slot)
        return True

    def _draw(self, request):
        row = llama.llama_get_logits_ith(self.context, request.row)
        logits = numpy.ctypeslib.as_array(row, (self.vocabulary_size,)).astype(numpy.float64)
        logprobs = logits - logits.max()
        logprobs -= numpy.log(numpy.exp(logprobs).sum())
        if request.temperature > 0:
            weights = numpy.exp(logprobs / request.temperature)
            token = int(numpy.searchsorted(numpy.cumsum(weights), request.random.random() * weights.sum()))
        else:
            token = int(logprobs.argmax())
        likely = [int(i) for i in numpy.argsort(-logprobs, kind="stable")[: request.top]]
        top = {f"token_id:{i}": float(numpy.float32(logprobs[i])) for i in likely}
        request.next_token = token
        request.drawn += 1
        request.out.put((token, self.piece(token), float(numpy.float32(logprobs[token])), top))


class Handler(http.server.BaseHTTPRequestHandler):
    engine = None

    def log_message(self, *_):
        pass

    def _json(self, value, status=200):
        self._send(json.dumps(value).encode(), "application/json", status)

    def _send(self, data, kind, status=200):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        if self.path == "/v1/models":
            self._json({"data": [{"id": "llama.cpp", "max_model_len": self.engine.length}]})
        elif self.path == "/metrics":
            engine = self.engine
            text = f"llamacpp:requests_processing {len(engine.running)}\nllama_batch_steps_total {engine.steps}\n"
            self._send((text + f"llama_batch_most_running {engine.most_running}\n").encode(), "text/plain")
        else:
            self._json({"error": {"message": "not here"}}, 404)

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path != "/v1/completions":
            return self._json({"error": {"message": "only /v1/completions is here"}}, 404)
        if body.get("n", 1) != 1 or body.get("echo"):
            return self._json({"error": {"message": "n and echo are not supported"}}, 400)
        prompt = body["prompt"] if isinstance(body["prompt"], list) else self.engine.tokenize(body["prompt"])
        request = Request(prompt, body)
        if len(prompt) + request.most > self.engine.length:
            return self._json({"error": {"message": f"the context has {self.engine.length} tokens"}}, 400)
        self.engine.waiting.put(request)
        try:
            return self._stream(request, body) if body.get("stream") else self._whole(request, body)
        except OSError:
            request.gone = True

    def _choice(self, body, drawn, reason):
        choice = {"index": 0, "text": "".join(text for _, text, _, _ in drawn), "finish_reason": reason}
        if body.get("return_token_ids"):
            choice["token_ids"] = [token for token, _, _, _ in drawn]
        if body.get("logprobs") is not None:
            choice["logprobs"] = {
                "tokens": [text for _, text, _, _ in drawn],
                "token_logprobs": [logprob for _, _, logprob, _ in drawn],
                "top_logprobs": [top for _, _, _, top in drawn],
            }
        return {"object": "text_completion", "model": "llama.cpp", "choices": [choice]}

    def _whole(self, request, body):
        drawn = list(iter(request.out.get, None))
        reply = self._choice(body, drawn, "length")
        reply["usage"] = {"prompt_tokens": len(request.prompt), "completion_tokens": len(drawn)}
        if body.get("return_token_ids"):
            reply["choices"][0]["prompt_token_ids"] = request.prompt
        self._json(reply)

    def _stream(self, request, body):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for one in iter(request.out.get, None):
            self._event(self._choice(body, [one], None))
        self._event(self._choice(body, [], "length"))
        self.wfile.write(b"data: [DONE]\n\n")

    def _event(self, value):
        self.wfile.write(f"data: {json.dumps(value)}\n\n".encode())
        self.wfile.flush()


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--slots", type=int, default=16)
    parser.add_argument("--context", type=int, default=1024)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    engine = Engine(options.model, options.slots, options.context, options.threads)
    Handler.engine = engine
    threading.Thread(target=engine.run, daemon=True).start()
    with Server(("127.0.0.1", options.port), Handler) as server:
        print(f"listening on http://127.0.0.1:{server.server_port}", file=sys.stderr, flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()

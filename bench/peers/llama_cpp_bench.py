"""Speed of llama.cpp on a GGUF file, through llama-cpp-python's low-level interface: the peer of `eadem bench`.

usage: llama_cpp_bench.py MODEL.gguf [--threads 2] [--prompt 512] [--new 64] [--rows 1,16] [--repeats 5]
       llama_cpp_bench.py --requantise FROM.gguf TO.gguf BF16|Q8_0

Prints JSON: tokens a second of a prefill and of decode steps with the given numbers of rows; each repeat uses fresh
random tokens. llama-cpp-python is built for the machine once, outside CI (docs/performance.md).
"""

import argparse
import ctypes
import json
import random
import statistics
import time

import llama_cpp

FTYPES = {"BF16": llama_cpp.LLAMA_FTYPE_MOSTLY_BF16, "Q8_0": llama_cpp.LLAMA_FTYPE_MOSTLY_Q8_0}


def requantise(source, target, kind):
    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype = FTYPES[kind]
    params.allow_requantize = True
    params.pure = True
    status = llama_cpp.llama_model_quantize(source.encode(), target.encode(), ctypes.byref(params))
    assert status == 0, f"llama_model_quantize failed with {status}"


@llama_cpp.llama_log_callback
def QUIET(_level, _text, _data):  # kept for the life of the process: llama.cpp calls it at any time
    pass


class Peer:
    def __init__(self, path, threads, context, sequences):
        llama_cpp.llama_backend_init()
        self.model = llama_cpp.llama_model_load_from_file(path.encode(), llama_cpp.llama_model_default_params())
        assert self.model, f"llama.cpp cannot load {path}"
        params = llama_cpp.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch = context, 512, 512
        params.n_threads = params.n_threads_batch = threads
        params.n_seq_max = sequences
        params.kv_unified = True
        self.context = llama_cpp.llama_init_from_model(self.model, params)
        assert self.context, "llama.cpp made no context"
        self.vocab = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(self.model))
        self.batch = llama_cpp.llama_batch_init(512, 0, 1)

    def clear(self):
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self.context), True)

    def decode(self, rows):
        """rows: (sequence, position, token, wants logits)."""
        batch = self.batch
        batch.n_tokens = len(rows)
        for i, (sequence, position, token, logits) in enumerate(rows):
            batch.token[i], batch.pos[i], batch.n_seq_id[i] = token, position, 1
            batch.seq_id[i][0], batch.logits[i] = sequence, logits
        status = llama_cpp.llama_decode(self.context, batch)
        assert status == 0, f"llama_decode failed with {status}"
        llama_cpp.llama_synchronize(self.context)

    def random_token(self):
        return random.randrange(self.vocab // 2)

    def prefill(self, length):
        self.clear()
        rows = [(0, i, self.random_token(), i == length - 1) for i in range(length)]
        start = time.perf_counter()
        self.decode(rows)
        return length / (time.perf_counter() - start)

    def generate(self, rows, prompt, steps):
        """Decode after a prompt each; the prompts are not timed."""
        self.clear()
        for sequence in range(rows):
            self.decode([(sequence, i, self.random_token(), False) for i in range(prompt)])
        start = time.perf_counter()
        for step in range(steps):
            self.decode([(s, prompt + step, self.random_token(), True) for s in range(rows)])
        return rows * steps / (time.perf_counter() - start)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--requantise", nargs=2, metavar=("TO", "KIND"))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--new", type=int, default=64)
    parser.add_argument("--rows", default="1,16")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    llama_cpp.llama_log_set(QUIET, ctypes.c_void_p(0))
    if options.requantise:
        return requantise(options.model, *options.requantise)
    rows = [int(r) for r in options.rows.split(",")]
    peer = Peer(options.model, options.threads, 512 + max(rows) * (64 + options.new) + options.prompt, max(rows))
    peer.prefill(options.prompt)
    result = {"peer": "llama.cpp", "version": llama_cpp.__version__, "model": options.model, "threads": options.threads}
    samples = [peer.prefill(options.prompt) for _ in range(options.repeats)]
    result["prefill"] = {"rows": options.prompt, "median": statistics.median(samples), "samples": samples}
    for count in rows:
        prompt = options.prompt if count == 1 else 64
        samples = [peer.generate(count, prompt, options.new) for _ in range(options.repeats)]
        result[f"decode_{count}"] = {"median": statistics.median(samples), "samples": samples}
    print(json.dumps(result))


main()

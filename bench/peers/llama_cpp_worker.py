"""llama.cpp as a process that is told what to time (protocol.py), through llama-cpp-python's low-level interface.

usage: llama_cpp_worker.py MODEL.gguf [--threads 2] [--rows 1] [--positions 4096] [--flash auto|on|off]

Evaluates batches of llama_decode, without the sampling that the other engines are timed with. llama-cpp-python is built
for the machine once, outside CI (setup.sh).
"""

import ctypes
import random
import time

import llama_cpp
from protocol import parser, serve

CHUNK = 512  # rows of a batch of a prompt
FLASH = {"auto": -1, "off": 0, "on": 1}


@llama_cpp.llama_log_callback
def QUIET(_level, _text, _data):  # kept for the life of the process: llama.cpp calls it at any time
    pass


class Peer:
    def __init__(self, options):
        llama_cpp.llama_backend_init()
        self.model = llama_cpp.llama_model_load_from_file(
            options.model.encode(), llama_cpp.llama_model_default_params()
        )
        if not self.model:
            raise RuntimeError(f"llama.cpp cannot load {options.model}")
        params = llama_cpp.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch = options.positions + 256, CHUNK, CHUNK
        params.n_threads = params.n_threads_batch = options.threads
        params.n_seq_max = options.rows
        params.kv_unified = True
        params.flash_attn_type = FLASH[options.flash]
        self.context = llama_cpp.llama_init_from_model(self.model, params)
        if not self.context:
            raise RuntimeError("llama.cpp made no context")
        self.vocabulary = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(self.model))
        self.batch = llama_cpp.llama_batch_init(CHUNK, 0, 1)
        self.random = random.Random(0)
        self.rows = self.position = 0

    def decode(self, rows):
        """rows: (sequence, position, wants logits), each with a random token."""
        batch = self.batch
        batch.n_tokens = len(rows)
        for i, (sequence, position, logits) in enumerate(rows):
            batch.token[i] = self.random.randrange(self.vocabulary // 2)
            batch.pos[i], batch.n_seq_id[i] = position, 1
            batch.seq_id[i][0], batch.logits[i] = sequence, logits
        status = llama_cpp.llama_decode(self.context, batch)
        if status != 0:
            raise RuntimeError(f"llama_decode failed with {status}")
        llama_cpp.llama_synchronize(self.context)

    def read(self, rows, context, seed):
        """Prompts of that many tokens, in batches of whole chunks over all sequences."""
        self.stop()
        self.random.seed(seed)
        work = [(sequence, i, i == context - 1) for sequence in range(rows) for i in range(context)]
        for begin in range(0, len(work), CHUNK):
            self.decode(work[begin : begin + CHUNK])

    def prefill(self, tokens, seed):
        self.read(1, tokens, seed)

    def start(self, rows, context, steps, seed):
        self.read(rows, context, seed)
        self.rows, self.position = rows, context

    def advance(self, steps):
        for _ in range(steps):
            self.decode([(sequence, self.position, True) for sequence in range(self.rows)])
            self.position += 1

    def stop(self):
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self.context), True)


def main():
    arguments = parser()
    arguments.add_argument("--flash", choices=FLASH, default="auto")
    options = arguments.parse_args()
    llama_cpp.llama_log_set(QUIET, ctypes.c_void_p(0))
    start = time.perf_counter()
    peer = Peer(options)
    description = {
        "engine": "llama.cpp",
        "version": f"llama-cpp-python {llama_cpp.__version__}",
        "settings": {
            "threads": options.threads,
            "flash_attention": options.flash,
            "kv": "f16",
            "system": llama_cpp.llama_print_system_info().decode(),
        },
        "load_seconds": time.perf_counter() - start,
        "weight_bytes": llama_cpp.llama_model_size(peer.model),
    }
    serve(peer, description)


main()

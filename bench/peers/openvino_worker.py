"""OpenVINO GenAI as a process that is told what to time (protocol.py): its continuous batching on the CPU.

usage: openvino_worker.py MODEL.gguf [--threads 2] [--rows 1] [--positions 4096] [--kv TYPE]

Prompts are token ids, fresh each time, and its prefix cache is off: with it a repeated prompt looks ten times faster.
It computes in bf16 where the machine does that fast, and keeps keys and values in 8 bits unless --kv names a type.
"""

import pathlib
import time

import numpy
import openvino
import openvino_genai
from protocol import parser, serve

CHUNK = 512


class Peer:
    def __init__(self, options):
        scheduler = openvino_genai.SchedulerConfig()
        scheduler.num_kv_blocks = options.positions // 16 + 4 * options.rows  # blocks of 16 or 32 positions
        scheduler.cache_size = 0
        scheduler.max_num_batched_tokens = CHUNK
        scheduler.max_num_seqs = max(options.rows, 2)
        scheduler.enable_prefix_caching = False
        properties = {"INFERENCE_NUM_THREADS": options.threads, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY"}
        if options.kv:
            properties["KV_CACHE_PRECISION"] = options.kv
        self.properties = properties
        self.pipeline = openvino_genai.ContinuousBatchingPipeline(options.model, scheduler, "CPU", properties)
        self.vocabulary = 49152  # every model here has at least SmolLM2's tokens
        self.handles, self.number = [], 0

    def add(self, rows, context, new, seed):
        self.stop()
        config = openvino_genai.GenerationConfig()
        config.max_new_tokens, config.ignore_eos, config.do_sample = new, True, False
        random = numpy.random.default_rng(seed)
        for _ in range(rows):
            ids = random.integers(0, self.vocabulary // 2, (1, context), dtype=numpy.int64)
            self.number += 1
            self.handles.append(self.pipeline.add_request(self.number, openvino.Tensor(ids), config))
        self.tokens = [0] * rows

    def until(self, tokens):
        """Steps until each sequence has drawn that many tokens."""
        while min(self.tokens) < tokens:
            if not self.pipeline.has_non_finished_requests():
                raise RuntimeError("the sequences ended before the time")
            self.pipeline.step()
            for i, handle in enumerate(self.handles):
                if handle.can_read():
                    self.tokens[i] += sum(len(output.generated_ids) for output in handle.read().values())

    def prefill(self, tokens, seed):
        self.add(1, tokens, 1, seed)
        self.until(1)

    def start(self, rows, context, steps, seed):
        self.add(rows, context, steps + rows * (context // CHUNK + 1) + 2, seed)
        self.until(1)

    def advance(self, steps):
        self.until(min(self.tokens) + steps)

    def stop(self):
        for handle in self.handles:
            handle.cancel()
        while self.pipeline.has_non_finished_requests():
            self.pipeline.step()
        self.handles = []


def main():
    arguments = parser()
    arguments.add_argument("--kv", default="")
    options = arguments.parse_args()
    start = time.perf_counter()
    peer = Peer(options)
    description = {
        "engine": "OpenVINO GenAI",
        "version": openvino_genai.__version__,
        "settings": {**peer.properties, "kv": options.kv or "its own choice", "pipeline": "ContinuousBatching"},
        "load_seconds": time.perf_counter() - start,
        "weight_bytes": pathlib.Path(options.model).stat().st_size,
    }
    serve(peer, description)


main()

"""PyTorch's attention beside bench_cuda_prefill: causal prefill, 8 KV heads, bf16, cuDNN and FlashAttention."""

import json
import sys

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

CELLS = [(8, 2048, 128), (2, 8192, 128), (1, 16384, 128), (2, 8192, 64), (2, 8192, 256)]


def microseconds(call, reps=9, batch=6):
    """Median over groups of launches."""
    for _ in range(3):
        call()
    times = []
    for _ in range(reps):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(batch):
            call()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) * 1e3 / batch)
    return sorted(times)[len(times) // 2]


def main():
    """Writes a line of JSON for each cell and backend to the file named first."""
    with open(sys.argv[1], "w", encoding="utf-8") as out:
        for sequences, length, head in CELLS:
            heads = 16 if head == 256 else 32
            q, k, v = (
                torch.randn(sequences, count, length, head, device="cuda", dtype=torch.bfloat16)
                for count in (heads, 8, 8)
            )
            for name, backend in (("cudnn", SDPBackend.CUDNN_ATTENTION), ("flash", SDPBackend.FLASH_ATTENTION)):
                try:
                    with sdpa_kernel(backend):
                        us = microseconds(
                            lambda q=q, k=k, v=v: scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
                        )
                except RuntimeError as error:
                    print(name, sequences, length, head, str(error).splitlines()[0])
                    continue
                tflops = 2.0 * sequences * length * length * head * heads / us * 1e-6
                print(f"{name} {sequences} x {length}, head {head}: {us:.1f} us {tflops:.1f} TFLOP/s", flush=True)
                cell = {"op": "attention", "sequences": sequences, "length": length, "head": head}
                out.write(json.dumps(cell | {"variant": name, "us": us, "tflops": tflops}) + "\n")


if __name__ == "__main__":
    main()

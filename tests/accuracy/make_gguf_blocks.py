"""Writes fixtures/gguf_blocks.bin: blocks of every supported GGUF tensor type and the float32 values they mean.

The expected values come from the `gguf` package's own dequantiser, so a C++ expansion can be held against them bit for
bit. Layout of the file, everything little-endian, no padding:

    8 bytes   magic "EADEMGB1"
    u32       number of cases
    per case:
      u32     length of the name, then the name (ASCII, for instance "Q4_K/extreme")
      u32     ggml type id (0 F32, 1 F16, 2 Q4_0, 3 Q4_1, 6 Q5_0, 7 Q5_1, 8 Q8_0, 12 Q4_K, 13 Q5_K, 14 Q6_K, 30 BF16)
      u32     rows
      u32     cols (a multiple of the type's block)
      u64     number of bytes of the encoded tensor, then these bytes, row after row as in a GGUF file
      f32     rows * cols expected values, row-major

Two cases a type: "plain" is what a quantiser makes of ordinary weights (K-quants: random blocks with ordinary scales,
since the package cannot make them); "extreme" is random bits in every field, the scales any finite half (subnormal,
negative and zero ones among them).

Run: python3 make_gguf_blocks.py (needs numpy and gguf)
"""

import pathlib
import struct

import gguf
import numpy as np
from gguf import GGMLQuantizationType as T

OUT = pathlib.Path(__file__).parent / "fixtures" / "gguf_blocks.bin"
TYPES = [T.F32, T.F16, T.BF16, T.Q8_0, T.Q4_0, T.Q4_1, T.Q5_0, T.Q5_1, T.Q4_K, T.Q5_K, T.Q6_K]
K_QUANTS = {T.Q4_K, T.Q5_K, T.Q6_K}
# Byte offsets of the half-precision scales inside a block (ggml's block structures).
HALF_FIELDS = {
    T.Q8_0: [0],
    T.Q4_0: [0],
    T.Q4_1: [0, 2],
    T.Q5_0: [0],
    T.Q5_1: [0, 2],
    T.Q4_K: [0, 2],
    T.Q5_K: [0, 2],
    T.Q6_K: [208],
}


def finite_halves(rng, n):
    """n random float16 bit patterns, none infinite or NaN; every fifth subnormal or zero."""
    bits = rng.integers(0, 1 << 16, n, dtype=np.uint16)
    bits = np.where((bits & 0x7C00) == 0x7C00, bits & 0x83FF, bits)
    bits[::5] &= 0x83FF
    if n > 10:
        bits[:3] = [0x0000, 0x8000, 0x0001]
    return bits


def random_blocks(rng, qtype, rows, cols, ordinary):
    """Encoded tensor with random bits in all fields but the scales, which are ordinary or any finite half."""
    block, size = gguf.GGML_QUANT_SIZES[qtype]
    raw = rng.integers(0, 256, (rows * cols // block, size), dtype=np.uint8)
    for offset in HALF_FIELDS[qtype]:
        if ordinary:
            half = rng.uniform(0.2, 1.0, len(raw)) * 2e-4
            half = half.astype(np.float16).view(np.uint16)
        else:
            half = finite_halves(rng, len(raw))
        raw[:, offset : offset + 2] = half.view(np.uint8).reshape(-1, 2)
    return raw.reshape(rows, -1)


def encode(rng, qtype, rows, cols, ordinary):
    """The encoded tensor's bytes as a uint8 matrix with one row of the tensor a row."""
    if qtype == T.F32:
        bits = rng.integers(0, 1 << 32, (rows, cols), dtype=np.uint32)
        bits = np.where((bits & 0x7F800000) == 0x7F800000, bits & 0x807FFFFF, bits).astype("<u4")
        values = rng.standard_normal((rows, cols)).astype("<f4")
        return (values if ordinary else bits).view(np.uint8)
    if qtype in (T.F16, T.BF16) and not ordinary:
        if qtype == T.F16:
            bits = finite_halves(rng, rows * cols)
        else:
            bits = rng.integers(0, 1 << 16, rows * cols, dtype=np.uint16)
            bits = np.where((bits & 0x7F80) == 0x7F80, bits & 0x807F, bits)
        return bits.astype("<u2").reshape(rows, cols).view(np.uint8)
    if qtype in K_QUANTS or not ordinary:
        return random_blocks(rng, qtype, rows, cols, ordinary)
    weights = (rng.standard_normal((rows, cols)) * 0.05 + 0.01).astype(np.float32)
    return gguf.quantize(weights, qtype).view(np.uint8).reshape(rows, -1)


def main():
    rng = np.random.default_rng(20261129)
    cases = [(t, kind) for t in TYPES for kind in ("plain", "extreme")]
    with OUT.open("wb") as f:
        f.write(b"EADEMGB1" + struct.pack("<I", len(cases)))
        for qtype, kind in cases:
            rows, cols = 4, 512
            raw = np.ascontiguousarray(encode(rng, qtype, rows, cols, kind == "plain"))
            view = raw.view(np.float32) if qtype == T.F32 else raw.view(np.float16) if qtype == T.F16 else raw
            floats = np.asarray(gguf.dequantize(view, qtype), dtype="<f4").reshape(rows, cols)
            assert np.isfinite(floats).all(), qtype
            name = f"{qtype.name}/{kind}".encode()
            f.write(struct.pack("<I", len(name)) + name)
            f.write(struct.pack("<IIIQ", int(qtype), rows, cols, raw.nbytes) + raw.tobytes() + floats.tobytes())
            print(f"{name.decode():14} {raw.nbytes:6} bytes, largest value {np.abs(floats).max():.3g}")


if __name__ == "__main__":
    main()

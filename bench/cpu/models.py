"""The models of `./dev bench cpu`, made on the spot as GGUF files that every engine loads.

usage: models.py smollm2-135m|qwen3-0.6b|llama-3.2-1b F16|BF16|Q8_0|Q4_1 TARGET.gguf --smollm2 Q4_1.gguf
       models.py smollm2-135m vocabulary TARGET.gguf --smollm2 Q4_1.gguf

SmolLM2-135M-Instruct in four formats from its Q4_1 file, with a context of 40,960 (its own is 8,192), so that 32k can
be asked of it: its weights stay as they are. Beside it models with random weights in the shapes of Qwen3-0.6B and
Llama-3.2-1B, whose vocabulary is SmolLM2's with unused tokens after it. A file of SmolLM2's vocabulary without tensors
(`vocabulary` in place of a format makes one, of 2 MB) does where the whole one cannot be had: all weights are random.

F16, BF16 and Q8_0: every matrix in that format. Q4_1: matrices in Q4_1, the tied embedding in Q8_0, as SmolLM2's file
has it. Needs numpy and gguf (.venv).
"""

import argparse
import os
import pathlib
import struct

import gguf
import numpy as np
from shapes import SHAPES

FORMATS = ("F16", "BF16", "Q8_0", "Q4_1")
CONTEXT = 40960
POOL = 1 << 22  # random weights; each tensor is a walk through them from a place of its own

FILE_TYPES = {
    "F16": gguf.LlamaFileType.MOSTLY_F16,
    "BF16": gguf.LlamaFileType.MOSTLY_BF16,
    "Q8_0": gguf.LlamaFileType.MOSTLY_Q8_0,
    "Q4_1": gguf.LlamaFileType.MOSTLY_Q4_1,
}


def kind_of(name, file_format):
    """The tensor type of a matrix in a file of the format."""
    if file_format == "Q4_1" and name == "token_embd.weight":
        return gguf.GGMLQuantizationType.Q8_0
    return gguf.GGMLQuantizationType[file_format]


def add_matrix(writer, name, blocks, shape, kind):
    """blocks: bytes of quantised weights, at least one; repeated until the matrix is full."""
    block, size = gguf.GGML_QUANT_SIZES[kind]
    needed = shape[0] * shape[1] // block
    data = np.resize(blocks, (needed, size)).reshape(shape[0], shape[1] // block * size)
    if kind == gguf.GGMLQuantizationType.F16:  # the format's own dtype is how the writer knows it
        return writer.add_tensor(name, data.view(np.float16))
    return writer.add_tensor(name, data, raw_dtype=kind)


def quantised(values, kind):
    """float32 [n] as rows of the type's blocks of bytes."""
    _, size = gguf.GGML_QUANT_SIZES[kind]
    return gguf.quants.quantize(values.reshape(1, -1), kind).view(np.uint8).reshape(-1, size)


class Pool:
    """Random weights of each type, made once; `take` gives a tensor's, from a place that its number decides."""

    def __init__(self, seed=7):
        self.values = np.random.default_rng(seed).standard_normal(POOL, dtype=np.float32) * 0.02
        self.blocks = {}

    def take(self, kind, number):
        if kind not in self.blocks:
            self.blocks[kind] = quantised(self.values, kind)
        blocks = self.blocks[kind]
        return np.roll(blocks, -(number * 7919 % len(blocks)), axis=0)


def write(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def make_random(path, shape, file_format, tokenizer):
    """tokenizer: the path of a GGUF file whose vocabulary fits."""
    writer = gguf.GGUFWriter(path, shape.architecture)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(shape.hidden)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(shape.mlp)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_key_length(shape.head_size)
    writer.add_value_length(shape.head_size)
    writer.add_rope_dimension_count(shape.head_size)
    writer.add_rope_freq_base(shape.rope_base)
    writer.add_layer_norm_rms_eps(shape.epsilon)
    writer.add_vocab_size(shape.vocabulary)
    writer.add_file_type(FILE_TYPES[file_format])
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    add_vocabulary(writer, gguf.GGUFReader(tokenizer), shape.vocabulary)
    pool, number = Pool(), 0

    def matrix(name, n, k):
        nonlocal number
        kind, number = kind_of(name, file_format), number + 1
        add_matrix(writer, name, pool.take(kind, number), (n, k), kind)

    def norm(name, size):
        writer.add_tensor(name, np.ones(size, np.float32))

    matrix("token_embd.weight", shape.vocabulary, shape.hidden)
    for layer in range(shape.layers):
        norm(f"blk.{layer}.attn_norm.weight", shape.hidden)
        norm(f"blk.{layer}.ffn_norm.weight", shape.hidden)
        if shape.head_norm:
            norm(f"blk.{layer}.attn_q_norm.weight", shape.head_size)
            norm(f"blk.{layer}.attn_k_norm.weight", shape.head_size)
        for name, n, k in shape.matrices():
            matrix(f"blk.{layer}.{name}.weight", n, k)
    norm("output_norm.weight", shape.hidden)
    write(writer)


def add_vocabulary(writer, reader, size):
    """The reader's vocabulary and what belongs to it, with unused tokens up to `size`."""
    for field in reader.fields.values():
        if not field.name.startswith("tokenizer."):
            continue
        contents = field.contents()
        if field.name == "tokenizer.ggml.tokens":
            contents = contents + [f"<|unused_{i}|>" for i in range(len(contents), size)]
        if field.name == "tokenizer.ggml.token_type":
            contents = contents + [int(gguf.TokenType.UNUSED)] * (size - len(contents))
        add_field(writer, field, contents)


def add_field(writer, field, contents):
    inner = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
    writer.add_key_value(field.name, contents, field.types[0], sub_type=inner)


def make_smollm2(path, source, file_format):
    """SmolLM2 from its Q4_1 file: the same bytes for Q4_1, else every matrix rounded to the format."""
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(path, "llama")
    replaced = {"llama.context_length": CONTEXT, "general.file_type": int(FILE_TYPES[file_format])}
    for field in reader.fields.values():
        if not field.name.startswith("GGUF.") and field.name != "general.architecture":
            add_field(writer, field, replaced.get(field.name, field.contents()))
    for tensor in reader.tensors:
        if len(tensor.shape) == 1:
            writer.add_tensor(tensor.name, np.array(tensor.data))
            continue
        kind = kind_of(tensor.name, file_format)
        shape = [int(x) for x in reversed(tensor.shape)]
        if tensor.tensor_type == kind:
            blocks = np.array(tensor.data).reshape(-1, gguf.GGML_QUANT_SIZES[kind][1])
        else:
            values = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
            blocks = quantised(np.ascontiguousarray(values).reshape(-1), kind)
        add_matrix(writer, tensor.name, blocks, shape, kind)
    write(writer)


def make_vocabulary(path, source):
    """The source's vocabulary, without tensors."""
    writer = gguf.GGUFWriter(path, "llama")
    add_vocabulary(writer, gguf.GGUFReader(source), SHAPES["smollm2-135m"].vocabulary)
    write(writer)


def has_weights(path):
    """Whether a GGUF file has tensors, by its header alone: to read a vocabulary takes seconds."""
    with open(path, "rb") as file:
        _, _, tensors = struct.unpack("<4sIQ", file.read(16))
    return tensors > 0


def make(target, name, file_format, smollm2):
    """Writes the model to `target`. smollm2: SmolLM2's Q4_1 file, or its vocabulary alone."""
    if file_format == "vocabulary":
        make_vocabulary(target, smollm2)
    elif name == "smollm2-135m" and has_weights(smollm2):
        make_smollm2(target, smollm2, file_format)
    else:
        make_random(target, SHAPES[name], file_format, smollm2)


def model_file(folder, name, file_format, smollm2):
    """The path of a model in a format, made where it is missing."""
    path = pathlib.Path(folder) / f"{name}-{file_format}.gguf"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")  # an interrupted run leaves no file that looks whole
        make(partial, name, file_format, smollm2)
        os.replace(partial, path)
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=SHAPES)
    parser.add_argument("format", choices=(*FORMATS, "vocabulary"))
    parser.add_argument("target")
    parser.add_argument("--smollm2", required=True)
    options = parser.parse_args()
    make(options.target, options.name, options.format, options.smollm2)


if __name__ == "__main__":
    main()

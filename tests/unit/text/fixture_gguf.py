"""Reads and writes the tokenizer metadata of GGUF files, for make_fixtures.py."""

import struct

STRING, ARRAY = 8, 9
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
FLAGS = ("add_bos", "add_eos", "add_space_prefix")
IDS = ("bos", "eos", "unknown", "pad")
KEYS = {
    "model": "model",
    "pre": "pre",
    "tokens": "tokens",
    "scores": "scores",
    "types": "token_type",
    "merges": "merges",
    "bos": "bos_token_id",
    "eos": "eos_token_id",
    "unknown": "unknown_token_id",
    "pad": "padding_token_id",
    "add_bos": "add_bos_token",
    "add_eos": "add_eos_token",
    "add_space_prefix": "add_space_prefix",
}


def read_vocab(path):
    """The tokenizer.ggml.* keys of a file."""
    metadata = {}
    with open(path, "rb") as file:

        def scalar(kind):
            return struct.unpack("<" + SCALARS[kind], file.read(struct.calcsize(SCALARS[kind])))[0]

        def value(kind):
            if kind == STRING:
                return file.read(scalar(10)).decode()
            if kind == ARRAY:
                of, count = scalar(4), scalar(10)
                return [value(of) for _ in range(count)]
            return scalar(kind)

        assert file.read(4) == b"GGUF"
        scalar(4), scalar(10)
        for _ in range(scalar(10)):
            key = value(STRING)
            metadata[key] = value(scalar(4))
    vocab = {name: metadata.get("tokenizer.ggml." + key) for name, key in KEYS.items()}
    return vocab | {name: vocab[name] or [] for name in ("scores", "types", "merges")} | {"pre": vocab["pre"] or ""}


def write_vocab(path, vocab):
    """A GGUF file without tensors that llama.cpp opens for its vocabulary."""

    def text(value):
        return struct.pack("<Q", len(value.encode())) + value.encode()

    entries = [text("general.architecture") + struct.pack("<I", STRING) + text("llama")]
    for name, key in KEYS.items():
        value = vocab[name]
        if value is None or value == [] or value == "":
            continue
        head = text("tokenizer.ggml." + key)
        if isinstance(value, str):
            entries.append(head + struct.pack("<I", STRING) + text(value))
        elif isinstance(value, bool):
            entries.append(head + struct.pack("<I?", 7, value))
        elif isinstance(value, int):
            entries.append(head + struct.pack("<II", 4, value))
        elif isinstance(value[0], str):
            entries.append(
                head + struct.pack("<IIQ", ARRAY, STRING, len(value)) + b"".join(text(item) for item in value)
            )
        else:
            kind = 6 if isinstance(value[0], float) else 5
            entries.append(
                head
                + struct.pack("<IIQ", ARRAY, kind, len(value))
                + struct.pack(f"<{len(value)}{SCALARS[kind]}", *value)
            )
    with open(path, "wb") as file:
        file.write(b"GGUF" + struct.pack("<IQQ", 3, 0, len(entries)) + b"".join(entries))


def to_records(vocab):
    """Records that the tests read: header (JSON), then tokens, scores, types, and merges as pairs of 16-bit ids.

    Tokens that are the joined parts of the next merge are left out (empty): most of a byte-level vocabulary.
    """
    import json

    header = {name: vocab[name] for name in ("model", "pre", *IDS, *FLAGS)} | {"tokens": len(vocab["tokens"])}
    ids = {token: i for i, token in enumerate(vocab["tokens"])}
    pairs = [merge.split(" ") for merge in vocab["merges"]]
    merges = [(ids[a], ids[b], ids[a + b]) for a, b in pairs]
    made = {c for _, _, c in merges}
    tokens = [b"" if i in made else token.encode() for i, token in enumerate(vocab["tokens"])]
    assert all(len(token) < 256 for token in tokens)
    yield json.dumps(header).encode()
    yield b"".join(bytes([len(token)]) + token for token in tokens)
    yield struct.pack(f"<{len(vocab['scores'])}f", *vocab["scores"])
    yield bytes(vocab["types"])
    yield b"".join(struct.pack("<HHH", *merge) for merge in merges)

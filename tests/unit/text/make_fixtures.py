#!/usr/bin/env python3
"""Makes tests/unit/text/fixtures: strings, tokenizers, and the token ids that the reference tokenizers give.

References: the `tokenizers` library for tokenizer.json files, llama.cpp (through llama-cpp-python, vocabulary only) for
GGUF metadata. Broken UTF-8 is given to them as Python's errors="replace" reads it, since neither defines it.

    pip install tokenizers==0.23.3 llama-cpp-python==0.3.36 sentencepiece==0.2.3 jinja2==3.1.6
    python tests/unit/text/make_fixtures.py SMOLLM2.gguf STORIES260K.gguf
    python tests/unit/text/make_template_fixtures.py

Files of ids, strings and decoded texts are records: a 32-bit little-endian length, then that many bytes; ids are 16-bit
little-endian numbers.
"""

import io
import json
import pathlib
import random
import struct
import sys
import tempfile

import fixture_gguf
import fixture_strings
import llama_cpp
import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

FIXTURES = pathlib.Path(__file__).parent / "fixtures"
PRE_NAMES = [
    "default",
    "gpt-2",
    "smollm",
    "llama-bpe",
    "dbrx",
    "qwen2",
    "qwen35",
    "tekken",
    "gpt-4o",
    "deepseek-v3",
    "falcon",
]
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)


def write_records(name, records):
    with open(FIXTURES / name, "wb") as file:
        for record in records:
            file.write(struct.pack("<I", len(record)) + record)


def pack_ids(ids):
    return struct.pack(f"<{len(ids)}H", *ids)


def write_ids(name, encode, strings, modes=(False, True)):
    """The ids of all strings as plain text, then with special tokens added and parsed."""
    write_records(f"{name}.ids", [pack_ids(encode(text, special)) for special in modes for text in strings])


class LlamaVocabulary:
    """The tokenizer of a GGUF file as llama.cpp reads it."""

    def __init__(self, path):
        params = llama_cpp.llama_model_default_params()
        params.vocab_only = True
        self.model = llama_cpp.llama_model_load_from_file(str(path).encode(), params)
        assert self.model, path
        self.vocab = llama_cpp.llama_model_get_vocab(self.model)

    def encode(self, text, special):
        data = text.encode()
        room = len(data) + 16
        out = (llama_cpp.llama_token * room)()
        count = llama_cpp.llama_tokenize(self.vocab, data, len(data), out, room, special, special)
        assert count >= 0
        return list(out[:count])


def train(model, trainer, **parts):
    """A small tokenizer of the given parts, trained on the fixtures' own lines."""
    tokenizer = Tokenizer(model)
    for part, value in parts.items():
        setattr(tokenizer, part, value)
    tokenizer.train_from_iterator(fixture_strings.corpus(), trainer)
    return tokenizer


def json_tokenizers():
    """One small tokenizer for each way that the supported families are set up."""
    yield from byte_level_tokenizers()
    yield from sentencepiece_tokenizers()


def byte_level_tokenizers():
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    chatml = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    byte_trainer = dict(vocab_size=1200, initial_alphabet=alphabet, show_progress=False)

    smollm = train(
        models.BPE(),
        trainers.BpeTrainer(special_tokens=chatml, **byte_trainer),
        pre_tokenizer=pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
        ),
        decoder=decoders.ByteLevel(),
    )
    smollm.add_tokens(
        [
            AddedToken("<mask>", lstrip=True, rstrip=True),
            AddedToken("<tool>", single_word=True),
            AddedToken("fox jumps", normalized=False),
        ]
    )
    yield "json_smollm", smollm

    qwen = train(
        models.BPE(),
        trainers.BpeTrainer(special_tokens=chatml, **byte_trainer),
        normalizer=normalizers.NFC(),
        pre_tokenizer=pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(LLAMA3.replace("{1,3}", "")), "isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        ),
        decoder=decoders.ByteLevel(),
        post_processor=processors.ByteLevel(trim_offsets=False),
    )
    yield "json_qwen", qwen

    llama3 = train(
        models.BPE(ignore_merges=True),
        trainers.BpeTrainer(special_tokens=["<s>", "</s>"], **byte_trainer),
        pre_tokenizer=pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(LLAMA3), "isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        ),
        decoder=decoders.ByteLevel(),
        post_processor=processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)]),
    )
    yield "json_llama3", llama3


def sentencepiece_tokenizers():
    pieces = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    merge_trainer = trainers.BpeTrainer(vocab_size=1600, special_tokens=pieces, limit_alphabet=500, show_progress=False)
    bpe = lambda: models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True)  # noqa: E731
    sentencepiece_decoder = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]

    llama2 = train(
        bpe(),
        merge_trainer,
        normalizer=normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]),
        decoder=decoders.Sequence(sentencepiece_decoder + [decoders.Strip(" ", 1, 0)]),
        post_processor=processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)]),
    )
    yield "json_llama2", demote_byte_tokens(llama2)

    mistral = train(
        bpe(),
        merge_trainer,
        pre_tokenizer=pre_tokenizers.Metaspace(prepend_scheme="first", split=False),
        decoder=decoders.Sequence(sentencepiece_decoder + [decoders.Strip(" ", 1, 0)]),
    )
    yield "json_mistral", demote_byte_tokens(mistral)

    unigram = train(
        models.Unigram(),
        trainers.UnigramTrainer(
            vocab_size=1200, special_tokens=["<unk>", "<s>", "</s>"], unk_token="<unk>", show_progress=False
        ),
        normalizer=normalizers.NFKC(),
        pre_tokenizer=pre_tokenizers.Metaspace(),
        decoder=decoders.Metaspace(),
    )
    yield "json_unigram", unigram


def demote_byte_tokens(tokenizer):
    """Training puts the byte pieces among the special tokens; Llama's are ordinary pieces of the model."""
    document = json.loads(tokenizer.to_str())
    document["added_tokens"] = [token for token in document["added_tokens"] if not token["content"].startswith("<0x")]
    return Tokenizer.from_str(json.dumps(document))


def make_json(raw, strings):
    rng = random.Random(3)
    for name, tokenizer in json_tokenizers():
        (FIXTURES / f"{name}.json").write_text(
            json.dumps(json.loads(tokenizer.to_str()), ensure_ascii=False, separators=(",", ":"))
        )

        def encode(text, special, tokenizer=tokenizer):
            tokenizer.encode_special_tokens = not special
            return tokenizer.encode(text, add_special_tokens=special).ids

        write_ids(name, encode, strings)
        encoded = [encode(text, False) for text in strings]
        texts = [tokenizer.decode(ids, skip_special_tokens=True).encode() for ids in encoded]
        write_records(
            f"{name}.decoded", [b"=" if text == original else b"!" + text for text, original in zip(texts, raw)]
        )
        if "ByteLevel" in str(type(tokenizer.decoder)):
            size = tokenizer.get_vocab_size()
            sequences = [
                [rng.randrange(size) if rng.random() < 0.5 else rng.randrange(260) for _ in range(rng.randrange(30))]
                for _ in range(200)
            ]
            pairs = [(pack_ids(ids), tokenizer.decode(ids, skip_special_tokens=False).encode()) for ids in sequences]
            write_records(f"{name}.random", [part for pair in pairs for part in pair])


def make_gguf(strings, smollm2, stories):
    for name, path in (("gguf_smollm2", smollm2), ("gguf_stories260k", stories)):
        vocab = fixture_gguf.read_vocab(path)
        write_records(f"{name}.vocab", fixture_gguf.to_records(vocab))
        write_ids(name, LlamaVocabulary(path).encode, strings)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "vocab.gguf"
        vocab = train_boundless_bpe()
        write_records("gguf_bpe.vocab", fixture_gguf.to_records(vocab))
        for pre in PRE_NAMES:
            vocab["pre"] = pre
            fixture_gguf.write_vocab(path, vocab)
            write_ids(f"gguf_bpe.{pre}", LlamaVocabulary(path).encode, strings, modes=(False,))
        vocab = train_sentencepiece()
        fixture_gguf.write_vocab(path, vocab)
        write_records("gguf_spm.vocab", fixture_gguf.to_records(vocab))
        write_ids("gguf_spm", LlamaVocabulary(path).encode, strings)


def train_boundless_bpe():
    """Merges across words, digits and punctuation, so that every cut of a pre-tokenizer shows in the ids."""
    specials = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    trainer = trainers.BpeTrainer(
        vocab_size=4000,
        special_tokens=specials,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        max_token_length=16,
        show_progress=False,
    )
    tokenizer.train_from_iterator(
        [line[i : i + 60] for line in fixture_strings.corpus() for i in range(0, len(line), 60)], trainer
    )
    model = json.loads(tokenizer.to_str())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    types = [3] * len(specials) + [1] * (len(tokens) - len(specials))
    if "<tool>" not in tokens:
        tokens.append("<tool>")
        types.append(1)
    types[tokens.index("<tool>")] = 4
    return {
        "model": "gpt2",
        "pre": "default",
        "tokens": tokens,
        "scores": [],
        "types": types,
        "merges": [" ".join(m) for m in model["merges"]],
        "bos": 1,
        "eos": 2,
        "unknown": None,
        "pad": 0,
        "add_bos": True,
        "add_eos": True,
        "add_space_prefix": None,
    }


def train_sentencepiece():
    """A SentencePiece BPE model with byte fallback, as convert scripts put it into GGUF."""
    out = io.BytesIO()
    lines = [line for line in fixture_strings.corpus() if "\x00" not in line]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=out,
        model_type="bpe",
        vocab_size=2500,
        byte_fallback=True,
        character_coverage=0.98,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        user_defined_symbols=["<tool>"],
        split_digits=True,
        allow_whitespace_only_pieces=True,
        num_threads=1,
        minloglevel=2,
    )
    processor = sentencepiece.SentencePieceProcessor(model_proto=out.getvalue())
    tokens, scores, types = [], [], []
    for i in range(processor.get_piece_size()):
        tokens.append(processor.id_to_piece(i))
        scores.append(processor.get_score(i))
        user = tokens[-1] == "<tool>"
        types.append(
            2
            if processor.is_unknown(i)
            else 4
            if user
            else 3
            if processor.is_control(i)
            else 6
            if processor.is_byte(i)
            else 1
        )
    return {
        "model": "llama",
        "pre": "",
        "tokens": tokens,
        "scores": scores,
        "types": types,
        "merges": [],
        "bos": 1,
        "eos": 2,
        "unknown": 0,
        "pad": None,
        "add_bos": None,
        "add_eos": None,
        "add_space_prefix": None,
    }


def main():
    FIXTURES.mkdir(exist_ok=True)
    raw = fixture_strings.strings()
    write_records("strings", raw)
    strings = [text.decode("utf-8", "replace") for text in raw]
    make_json(raw, strings)
    make_gguf(strings, sys.argv[1], sys.argv[2])


if __name__ == "__main__":
    main()

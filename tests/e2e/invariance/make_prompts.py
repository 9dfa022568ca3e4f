"""Writes prompts.txt, the token ids of the invariance matrix, from texts written for it.

usage: make_prompts.py MODEL.gguf > prompts.txt    (needs the packages gguf and tokenizers)

Twenty prompts of 1 to 1,500 tokens: lengths around blocks of 64 positions and the split of 1,024, prose, code, digits,
several scripts, repetition, and a chat turn.
"""

import sys

import gguf
import tokenizers
from tokenizers import decoders, models, pre_tokenizers

PROSE = (
    "The lighthouse keeper wrote the same sentence every evening, and every evening it meant something else. "
    "On the first\nnight of winter it meant that the oil had been delivered; on the second, that the boat had "
    "not come back; on the third, that he had\nstopped expecting it. He kept the pages in a tin box under the "
    "stairs, sorted by wind rather than by date, because he believed that\nweather repeats itself and years "
    "do not. Visitors who asked for a particular day were told to describe the sky instead. A girl from the\n"
    "village once described a sky so exactly that he found the page at once, and reading it aloud he noticed "
    "that the handwriting was not\nhis own. Since then he has signed each sentence. Numbers are easier: 17 "
    "ships, 3 storms, 41 letters, 0 answers. The lamp needs 2.75\nlitres a night in December and 1.9 in June; "
    "the difference, he says, is what the dark costs. When the automatic lamp was installed the\nengineers "
    "asked what he would like to keep. He asked for the stairs. There are 128 of them, and he counts them "
    "still, up at dusk and\ndown at dawn, and if the two counts differ he begins again. "
)

CODE = '''def merge(left, right):
    """Merges two sorted lists; equal elements keep their order."""
    result, i, j = [], 0, 0
    while i < len(left) and j < len(right):
        if right[j] < left[i]:
            result.append(right[j])
            j += 1
        else:
            result.append(left[i])
            i += 1
    return result + left[i:] + right[j:]

assert merge([1, 4, 9], [2, 3, 10]) == [1, 2, 3, 4, 9, 10]
'''

SCRIPTS = (
    "Grüße aus Köln. Здравствуй, мир. こんにちは世界。 مرحبا بالعالم. 안녕하세요. नमस्ते दुनिया. Καλημέρα κόσμε. 🚢🌊🗼 "
)
CHAT = "<|im_start|>user\nName three colours of the sea, and say when each is seen.<|im_end|>\n<|im_start|>assistant\n"
DIGITS = "3.14159265358979 2.71828182845904 1,000,000 0x7f800000 2026-11-29 "


def smollm_tokenizer(path):
    fields = gguf.GGUFReader(path).fields
    tokens = fields["tokenizer.ggml.tokens"].contents()
    merges = [tuple(m.split(" ")) for m in fields["tokenizer.ggml.merges"].contents()]
    types = fields["tokenizer.ggml.token_type"].contents()
    tokenizer = tokenizers.Tokenizer(models.BPE({t: i for i, t in enumerate(tokens)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([t for t, kind in zip(tokens, types) if kind == 3])
    return tokenizer


def main():
    tokenizer = smollm_tokenizer(sys.argv[1])
    encode = lambda text: tokenizer.encode(text).ids
    prose = encode(PROSE.replace("\n", " ") * 10)
    mixed = encode((CODE + SCRIPTS + DIGITS + PROSE.replace("\n", " ")) * 4)
    prompts = [
        ("one", prose[:1]),
        ("two", prose[:2]),
        ("five", prose[:5]),
        ("digits", encode(DIGITS)[:17]),
        ("chat", encode(CHAT)),
        ("scripts", encode(SCRIPTS)[:60]),
        ("block-1", prose[:63]),
        ("block", prose[:64]),
        ("block+1", prose[:65]),
        ("repeated", encode("again and " * 60)[:100]),
        ("code", encode(CODE)[:127]),
        ("two-blocks", mixed[:128]),
        ("mixed-200", mixed[:200]),
        ("prose-256", prose[256:512]),
        ("mixed-333", mixed[100:433]),
        ("prose-500", prose[:500]),
        ("mixed-700", mixed[:700]),
        ("split-1", prose[:1023]),
        ("split+1", prose[:1025]),
        ("long", mixed[:1500]),
    ]
    for name, ids in prompts:
        assert ids, name
        print(f"{name}: {' '.join(map(str, ids))}")


main()

"""The 1,000 strings on which token ids are compared: many scripts, emoji, digits, code, whitespace, broken UTF-8."""

import random

SENTENCES = [
    "The quick brown fox jumps over the lazy dog.",
    "It's what they'd've said: we're DONE, I'LL wait, you'Ve won't.",
    "Die Straße ist naß, und über uns fliegen größere Vögel.",
    "Où est la bibliothèque ? À côté de l'hôtel, très près.",
    "El niño comió piñas en la montaña el año pasado.",
    "Zażółć gęślą jaźń, proszę państwa.",
    "Příliš žluťoučký kůň úpěl ďábelské ódy.",
    "Ký tự tiếng Việt có rất nhiều dấu, phải không?",
    "İstanbul'da ıhlamur ağacı gördüm.",
    "Ég borða ísinn þinn á Þingvöllum.",
    "Съешь ещё этих мягких французских булок.",
    "Їжак з'їв яблуко, а потім ґудзик.",
    "Η γρήγορη καφέ αλεπού πηδά πάνω από το σκυλί.",
    "שלום עולם, מה שלומך היום?",
    "مرحبا بالعالم، كيف حالك اليوم؟ ١٢٣٤٥",
    "سلام دنیا! من می‌خواهم چای بنوشم.",
    "नमस्ते दुनिया, आप कैसे हैं? १२३",
    "বাংলা ভাষায় লেখা একটি বাক্য।",
    "தமிழில் ஒரு வாக்கியம் எழுதுகிறேன்.",
    "తెలుగు లిపిలో ఒక వాక్యం.",
    "ಕನ್ನಡದಲ್ಲಿ ಒಂದು ವಾಕ್ಯ.",
    "മലയാളത്തിൽ ഒരു വാചകം.",
    "ภาษาไทยไม่มีช่องว่างระหว่างคำ",
    "ພາສາລາວສະບາຍດີ",
    "မြန်မာဘာသာစကား",
    "ភាសាខ្មែរ ស្អាត",
    "ქართული ენა ლამაზია",
    "Հայերեն լեզու",
    "አማርኛ ቋንቋ ነው።",
    "今天天气很好，我们去公园吧。",
    "繁體中文也要測試一下！「引號」",
    "吾輩は猫である。名前はまだ無い。",
    "カタカナとﾊﾝｶｸと漢字、ー。",
    "한국어 문장을 하나 써 봅시다. ㅋㅋㅋ",
    "ᠮᠣᠩᠭᠣᠯ ᠬᠡᠯᠡ",
    "བོད་སྐད་",
    "ᏣᎳᎩ ᎦᏬᏂᎯᏍᏗ",
    "𐍈𐌰𐌹𐌻 𐌲𐌿𐍄",
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝕞𝕒𝕥𝕙 𝟙𝟚𝟛",
    "ﬁne ﬂower ½ ² Ⅷ ㎏ ① ㍿",
    "e\u0301 vs \u00e9, n\u0303 vs \u00f1, a\u0308\u0304",
    "\u1112\u1161\u11ab \ud55c",
]
EMOJI = ["😀", "👍🏽", "👩‍👩‍👧‍👦", "🇩🇪🇯🇵", "❤️", "☃", "🏳️‍🌈", "1️⃣", "🤷🏿‍♂️", "🫠", "✨🔥💯", "🧑‍🚀", "⌨️", "🀄", "😶‍🌫️"]
CODE = [
    "def f(x: int = 3) -> list[int]:\n    return [i**2 for i in range(x) if i % 2 == 0]\n",
    "for (int i = 0; i < n; ++i) {\n\tsum += a[i] * b[i];\n}\n",
    "#include <vector>\nint main() { return 0; } // done",
    "SELECT name, COUNT(*) FROM users WHERE age >= 21 GROUP BY name;",
    '<div class="row"><p>Hello &amp; bye</p></div>',
    'fn main() { let x: &\'static str = "a\\n"; println!("{x:?}"); }',
    "$ ls -la | grep '^d' > /tmp/out.txt 2>&1",
    '{"key": [1, 2.5e-3, null, true], "nested": {"a": "b"}}',
    "x = 0x1F + 0b1010 - 1_000_000; y //= 3 # comment",
    "https://example.com/a/b?q=1&r=%20#frag user@example.org",
    "\\begin{align} a &= b^2 \\\\ c_{ij} &\\le \\frac{1}{2} \\end{align}",
    "if __name__ == '__main__':\r\n        main()\r\n",
    "const f = async ({a, ...b}) => await g`t${a}`;",
    "a->b::c<d>(e)[f] ?: g ??= !h && ~i",
]
NUMBERS = [
    "0",
    "7",
    "42",
    "123",
    "1234",
    "12345",
    "123456",
    "1234567890",
    "3.14159",
    "-273.15",
    "1,234,567.89",
    "1e10",
    "007",
    "2024-11-29T15:04:05Z",
    "192.168.0.1",
    "+1 (555) 010-9999",
    "50%",
    "$19.99",
    "٣٤٥",
    "१२३४",
    "１２３４",
    "Ⅻ",
    "x²",
    "10³",
    "1st 2nd 3rd",
]
SPACES = [
    " ",
    "  ",
    "   ",
    "    ",
    "        ",
    "\t",
    "\t\t",
    "\n",
    "\n\n",
    "\n\n\n",
    "\r\n",
    " \n",
    "\n ",
    " \n \n",
    "\u00a0",
    "\u3000",
    "\u2003",
    "\u200b",
    "\u2028",
    "\u0085",
    "\x0b",
    "\x0c",
    "\ufeff",
    "\u2581",
    " \u2581 ",
    "\x1c",
    "\u180e",
    "\u202f",
]
SPECIALS = [
    "<|im_start|>",
    "<|im_end|>",
    "<|endoftext|>",
    "<s>",
    "</s>",
    "<unk>",
    "<0x41>",
    "<0x0A>",
    "[INST]",
    "<tool>",
    "<mask>",
    "<|im_start",
    "im_end|>",
    "<pad>",
    "Ġ",
    "Ċ",
    "##a",
    "▁the",
    "<repo_name>",
    "<|user|>",
]
BROKEN = [
    b"\xff",
    b"\xfe\xff",
    b"\x80",
    b"\xbf\xbf",
    b"\xc3",
    b"\xc3(",
    b"\xe2\x82",
    b"\xe2\x28\xa1",
    b"\xf0\x9f\x98",
    b"\xf0\x9f",
    b"\xf0",
    b"\xc0\xaf",
    b"\xc1\x81",
    b"\xe0\x80\xaf",
    b"\xed\xa0\x80",
    b"\xed\xa0\xbd\xed\xb8\x80",
    b"\xf4\x90\x80\x80",
    b"\xf8\x88\x80\x80\x80",
    b"\xe9t\xe9",
    b"\x00",
]
COUNT = 1000


def random_text(rng):
    """Code points of every plane that is assigned much, no surrogates."""
    ranges = [
        (0x20, 0x7F),
        (0x20, 0x7F),
        (0x80, 0x250),
        (0x250, 0x800),
        (0x800, 0x2000),
        (0x2000, 0x2E80),
        (0x2E80, 0xD7FF),
        (0xE000, 0xFFFE),
        (0x10000, 0x10800),
        (0x1D400, 0x1D800),
        (0x1F300, 0x1FA00),
        (0x20000, 0x2A6DF),
    ]
    return "".join(chr(rng.randrange(*rng.choice(ranges))) for _ in range(rng.randrange(1, 30)))


def mixed(rng):
    """Parts of several kinds, joined by nothing or whitespace."""
    words = rng.choice(SENTENCES).split(" ")
    kinds = [
        lambda: rng.choice(words),
        lambda: " ".join(words[: rng.randrange(1, 6)]),
        lambda: rng.choice(EMOJI),
        lambda: rng.choice(NUMBERS),
        lambda: rng.choice(CODE)[: rng.randrange(1, 50)],
        lambda: rng.choice(SPACES) * rng.randrange(1, 4),
        lambda: rng.choice(SPECIALS),
        lambda: rng.choice("aAbBzZ'\"!?.,;:-_/\\|@#%^&*()[]{}<>=+~`") * rng.randrange(1, 6),
        lambda: str(rng.randrange(10 ** rng.randrange(1, 12))),
    ]
    return "".join(rng.choice(kinds)() + rng.choice(["", "", " ", " ", "\n"]) for _ in range(rng.randrange(1, 9)))


def strings():
    """1,000 byte strings, the same on every machine."""
    rng = random.Random(20241129)
    texts = ["", " ", "a", " a", "a ", "  a  b   c    "] + SENTENCES + EMOJI + CODE + NUMBERS + SPACES + SPECIALS
    texts += [s + "x" for s in SPACES] + ["x" + s for s in SPACES] + ["x" + s + "y" for s in SPACES]
    texts += (
        ["a" * n for n in (2, 3, 5, 8, 13, 64, 300)]
        + [" " * n for n in (5, 9, 17, 33, 100)]
        + ["\n" * n for n in (4, 7, 20)]
    )
    texts += ["word " * 60, "ab" * 100, "!?" * 40, "12" * 50]
    out = [text.encode() for text in texts]
    out += [b"ab" + broken + b" cd" for broken in BROKEN] + BROKEN + [a + b for a, b in zip(BROKEN, BROKEN[1:])]
    while len(out) < COUNT:
        kind = rng.random()
        text = (random_text(rng) if kind < 0.25 else mixed(rng)).encode()
        if kind > 0.96:
            cut = rng.randrange(len(text) + 1)
            text = text[:cut] + rng.choice(BROKEN) + text[cut:]
        out.append(text)
    return out[:COUNT]


def corpus():
    """Lines to train the small tokenizers on: the same material, other mixtures."""
    rng = random.Random(7)
    lines = SENTENCES * 3 + CODE * 3 + NUMBERS + EMOJI
    return lines + [mixed(rng) for _ in range(4000)]

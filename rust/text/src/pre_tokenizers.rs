//! The named pre-tokenizers of GGUF's `tokenizer.ggml.pre`: regular expressions applied one after another, each of
//! which cuts what the ones before left into its matches and the stretches between them.

/// What a name means.
pub struct PreTokenizer {
    pub patterns: &'static [&'static str],
    /// A stretch that is a token as a whole is taken so, before any merge.
    pub ignores_merges: bool,
    /// Whether a BOS token goes in front where the file does not say.
    pub adds_bos: bool,
}

// Contractions in any case, spelled out: a case-insensitive group would also match U+017F.
macro_rules! contractions {
    () => {
        r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
    };
}

// The pattern of the GPT-4 kind; its parameter is what a run of digits is.
macro_rules! gpt4 {
    ($digits:literal) => {
        concat!(
            contractions!(),
            r"|[^\r\n\p{L}\p{N}]?\p{L}+|",
            $digits,
            r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
        )
    };
}

// The pattern of the GPT-4o kind: words change from upper to lower case. Letters outside ASCII count as both.
macro_rules! gpt4o {
    ($contractions:expr, $digits:literal) => {
        concat!(
            r"[^\r\n\p{L}\p{N}]?((?=[\p{L}])([^a-z]))*((?=[\p{L}])([^A-Z]))+",
            $contractions,
            r"|[^\r\n\p{L}\p{N}]?((?=[\p{L}])([^a-z]))+((?=[\p{L}])([^A-Z]))*",
            $contractions,
            "|",
            $digits,
            r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
        )
    };
}

const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)";
const LLAMA3: &str = gpt4!(r"\p{N}{1,3}");
const QWEN2: &str = gpt4!(r"\p{N}");
const QWEN35: &str = concat!(
    contractions!(),
    r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);
const DEEPSEEK3_WORDS: &str = concat!(
    r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"##,
    r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);
const CJK_AND_KANA: &str = r"[\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+";

const fn plain(patterns: &'static [&'static str]) -> PreTokenizer {
    PreTokenizer { patterns, ignores_merges: false, adds_bos: false }
}

/// The meaning of a name; an absent name means "default". `None`: unknown.
pub fn named(name: &str) -> Option<PreTokenizer> {
    Some(match name {
        "" | "default" => plain(&[r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"]),
        "gpt-2" | "phi-2" | "mpt" | "olmo" | "jais" | "exaone4" | "gigachat" | "a.x-4.0" | "mellum" | "trillion"
        | "granite-docling" => plain(&[GPT2]),
        "smollm" | "starcoder" | "refact" | "command-r" | "codeshell" | "exaone" | "minerva-7b" | "mellum2" => {
            plain(&[r"\p{N}", GPT2])
        }
        "llama3" | "llama-v3" | "llama-bpe" | "falcon3" | "falcon-h1" | "pixtral" | "midm-2.0" | "lfm2" => {
            PreTokenizer { patterns: &[LLAMA3], ignores_merges: true, adds_bos: true }
        }
        "dbrx" | "smaug-bpe" | "chatglm-bpe" => plain(&[LLAMA3]),
        "glm4" => PreTokenizer { patterns: &[LLAMA3], ignores_merges: true, adds_bos: false },
        "qwen2" | "deepseek-r1-qwen" | "kormo" | "f2llmv2" | "megrez" | "hunyuan" | "stablelm2" | "grok-2"
        | "solar-open" => plain(&[QWEN2]),
        "qwen35" => plain(&[QWEN35]),
        "tekken" => PreTokenizer { patterns: &[gpt4o!("", r"\p{N}")], ignores_merges: true, adds_bos: true },
        "gpt-4o" | "llama4" | "kanana2" | "minimax-m2" => {
            plain(&[gpt4o!(concat!(contractions!(), "?"), r"\p{N}{1,3}")])
        }
        "deepseek-v3" | "hunyuan-dense" | "joyai-llm" => plain(&[r"\p{N}{1,3}", CJK_AND_KANA, DEEPSEEK3_WORDS]),
        "falcon" => plain(&[r"[\p{P}\$\+<=>\^~\|`]+", GPT2, "[0-9][0-9][0-9]"]),
        _ => return None,
    })
}

/// For messages: the most common names.
pub const COMMON_NAMES: &str =
    "default, gpt-2, smollm, starcoder, llama-bpe, qwen2, tekken, gpt-4o, deepseek-v3, falcon";

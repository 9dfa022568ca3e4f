//! Tokenizers from the metadata of a GGUF file (`tokenizer.ggml.*`).

use crate::decode::{parse_byte_token, Decoder};
use crate::pre_tokenizers::{named, COMMON_NAMES};
use crate::spm::Spm;
use crate::tokenizer::{SpecialIds, Tokenizer};
use ahash::AHashMap;
use std::collections::{HashMap, HashSet};
use tokenizers::decoders::byte_level::ByteLevel;
use tokenizers::models::bpe::BPE;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{AddedToken, PreTokenizerWrapper, SplitDelimiterBehavior, Tokenizer as HfTokenizer};

/// The metadata, fields named after GGUF's keys.
#[derive(Default)]
pub struct Vocab<'a> {
    /// "gpt2" (byte-level BPE) or "llama" (SentencePiece).
    pub model: &'a str,
    pub pre: &'a str,
    pub tokens: Vec<&'a str>,
    pub scores: &'a [f32],
    pub token_types: &'a [i32],
    pub merges: Vec<&'a str>,
    pub bos: Option<u32>,
    pub eos: Option<u32>,
    pub unknown: Option<u32>,
    pub pad: Option<u32>,
    pub add_bos: Option<bool>,
    pub add_eos: Option<bool>,
    pub add_space_prefix: Option<bool>,
}

// Values of tokenizer.ggml.token_type.
const UNKNOWN: i32 = 2;
const CONTROL: i32 = 3;
const USER_DEFINED: i32 = 4;
const BYTE: i32 = 6;

/// Tokens that end a turn or a text in the vocabularies of the supported families.
const END_TOKENS: [&str; 10] = [
    "</s>",
    "<eos>",
    "<end_of_turn>",
    "<|end|>",
    "<|end_of_text|>",
    "<|endoftext|>",
    "<|eom_id|>",
    "<|eot_id|>",
    "<|im_end|>",
    "<｜end▁of▁sentence｜>",
];

impl Vocab<'_> {
    /// As the file says, but tokens that end an answer are control tokens even where it does not say so.
    fn token_type(&self, id: usize) -> i32 {
        if END_TOKENS.contains(&self.tokens[id]) {
            return CONTROL;
        }
        self.token_types.get(id).copied().unwrap_or(1)
    }

    /// The ids at which an answer ends: EOS first, then the tokens known by their text.
    fn end_ids(&self) -> Vec<u32> {
        let known = (0..self.tokens.len() as u32).filter(|id| END_TOKENS.contains(&self.tokens[*id as usize]));
        self.eos.into_iter().chain(known.filter(|id| self.eos != Some(*id))).collect()
    }

    fn is_special(&self, id: usize) -> bool {
        matches!(self.token_type(id), CONTROL | UNKNOWN)
    }

    fn check(&self) -> Result<(), String> {
        let count = self.tokens.len();
        if count == 0 || count > 1 << 24 {
            return Err(format!("tokenizer.ggml.tokens has {count} entries; expected 1 to 16777216"));
        }
        for (name, len) in [("scores", self.scores.len()), ("token_type", self.token_types.len())] {
            if len != 0 && len != count {
                return Err(format!("tokenizer.ggml.{name} has {len} entries for {count} tokens; the file is damaged"));
            }
        }
        let ids = [("bos", self.bos), ("eos", self.eos), ("unknown", self.unknown), ("padding", self.pad)];
        for (name, id) in ids {
            if id.is_some_and(|id| id as usize >= count) {
                let id = id.unwrap_or(0);
                return Err(format!("tokenizer.ggml.{name}_token_id is {id}, but there are only {count} tokens"));
            }
        }
        Ok(())
    }
}

/// Builds the tokenizer that llama.cpp builds from the same metadata.
pub fn from_gguf(vocab: &Vocab) -> Result<Tokenizer, String> {
    vocab.check()?;
    match vocab.model {
        "gpt2" => byte_level(vocab),
        "llama" if vocab.tokens.len() > 2 => sentencepiece(&Vocab {
            bos: vocab.bos.or(Some(1)),
            eos: vocab.eos.or(Some(2)),
            unknown: vocab.unknown.or(Some(0)),
            tokens: vocab.tokens.clone(),
            merges: vec![],
            ..*vocab
        }),
        other => Err(format!("tokenizer.ggml.model '{other}' is not supported; supported are gpt2 and llama")),
    }
}

fn byte_level(vocab: &Vocab) -> Result<Tokenizer, String> {
    let pre = named(vocab.pre).ok_or_else(|| {
        format!(
            "tokenizer.ggml.pre '{}' is not a known pre-tokenizer; known are {COMMON_NAMES} and their aliases",
            vocab.pre
        )
    })?;
    let merges = split_merges(vocab)?;
    let model = BPE::builder().vocab_and_merges(ids(vocab), merges).ignore_merges(pre.ignores_merges).build();
    let model = model.map_err(|error| format!("tokenizer.ggml.merges: {error}"))?;
    let mut hf = HfTokenizer::new(model);
    let mut steps: Vec<PreTokenizerWrapper> = vec![];
    for pattern in pre.patterns {
        let pattern = SplitPattern::Regex((*pattern).into());
        let split = Split::new(pattern, SplitDelimiterBehavior::Isolated, false);
        steps.push(split.map_err(|error| format!("pre-tokenizer '{}': {error}", vocab.pre))?.into());
    }
    steps.push(ByteLevel::new(false, false, false).into());
    hf.with_pre_tokenizer(Some(Sequence::new(steps)));
    let tokens = add_tokens(&mut hf, vocab)?;
    let decoder = Decoder::from_json(&serde_json::json!({"type": "ByteLevel"}), &tokens)?;
    finish(hf, tokens, decoder, vocab, pre.adds_bos)
}

/// The merges as pairs. Of a repeated merge the first counts.
fn split_merges(vocab: &Vocab) -> Result<Vec<(String, String)>, String> {
    let mut merges = Vec::with_capacity(vocab.merges.len());
    let mut seen = HashSet::with_capacity(vocab.merges.len());
    for merge in &vocab.merges {
        // The first part may itself begin with a space, never be empty.
        let first = merge.chars().next().map_or(0, char::len_utf8);
        let cut = merge[first..].find(' ').map(|at| at + first);
        let cut =
            cut.ok_or_else(|| format!("tokenizer.ggml.merges: '{merge}' is not two tokens with a space between"))?;
        if seen.insert(*merge) {
            merges.push((merge[..cut].to_string(), merge[cut + 1..].to_string()));
        }
    }
    Ok(merges)
}

/// Where the file names no BOS, EOS or unknown token, they are 1, 2 and 0, as SentencePiece numbers them.
fn sentencepiece(vocab: &Vocab) -> Result<Tokenizer, String> {
    if vocab.scores.is_empty() {
        return Err("tokenizer.ggml.scores is missing; a tokenizer of model 'llama' needs it".into());
    }
    let mut pieces = HashMap::new();
    let mut bytes = Box::new([u32::MAX; 256]);
    let is_byte = |id: usize, text: &str| match vocab.token_type(id) {
        BYTE => true,
        _ => vocab.token_types.is_empty() && parse_byte_token(text).is_some(),
    };
    for (id, (text, score)) in vocab.tokens.iter().zip(vocab.scores).enumerate() {
        if score.is_nan() {
            return Err(format!("tokenizer.ggml.scores: the score of token {id} is not a number; the file is damaged"));
        }
        if is_byte(id, text) {
            let byte = parse_byte_token(text);
            let byte = byte.ok_or_else(|| format!("tokenizer.ggml.tokens: byte token {id} is '{text}', not <0xXX>"))?;
            bytes[byte as usize] = id as u32;
        } else if !vocab.is_special(id) && !text.is_empty() {
            pieces.insert((*text).into(), (id as u32, *score));
        }
    }
    let bytes = bytes.iter().all(|id| *id != u32::MAX).then_some(bytes);
    let unknown = vocab.unknown.unwrap_or(0);
    let prefix = vocab.add_space_prefix.unwrap_or(true);
    let model = BPE::builder().vocab_and_merges(ids(vocab), vec![]).build();
    let mut hf = HfTokenizer::new(model.map_err(|error| format!("tokenizer.ggml.tokens: {error}"))?);
    let tokens = add_tokens(&mut hf, vocab)?;
    let is_byte: Vec<bool> = vocab.tokens.iter().enumerate().map(|(id, text)| is_byte(id, text)).collect();
    let decoder = Decoder::sentencepiece(&tokens, &is_byte, prefix);
    let mut tokenizer = finish(hf, tokens, decoder, vocab, true)?;
    tokenizer.spm = Some(Spm::new(pieces, bytes, unknown, prefix));
    Ok(tokenizer)
}

/// Later duplicates win, as in llama.cpp.
fn ids(vocab: &Vocab) -> AHashMap<String, u32> {
    vocab.tokens.iter().enumerate().map(|(id, text)| (text.to_string(), id as u32)).collect()
}

/// Control and unknown tokens become special, user-defined ones plain added tokens. Returns (text, special) per id.
fn add_tokens(hf: &mut HfTokenizer, vocab: &Vocab) -> Result<Vec<Option<(String, bool)>>, String> {
    let mut added = vec![];
    let mut tokens = vec![];
    for (id, text) in vocab.tokens.iter().enumerate() {
        let special = vocab.is_special(id);
        if (special || vocab.token_type(id) == USER_DEFINED) && !text.is_empty() {
            added.push(AddedToken::from(*text, special).normalized(false));
        }
        tokens.push(Some((text.to_string(), special)));
    }
    hf.add_tokens(added).map_err(|error| format!("tokenizer.ggml.tokens: {error}"))?;
    Ok(tokens)
}

fn finish(
    hf: HfTokenizer,
    tokens: Vec<Option<(String, bool)>>,
    decoder: Decoder,
    vocab: &Vocab,
    adds_bos: bool,
) -> Result<Tokenizer, String> {
    let special =
        SpecialIds { bos: vocab.bos, eos: vocab.eos, unknown: vocab.unknown, pad: vocab.pad, ends: vocab.end_ids() };
    let mut tokenizer = Tokenizer::assemble(hf, tokens, decoder, special);
    let wanted = |add: Option<bool>, by_default: bool, id: Option<u32>, name: &str| match (add, id) {
        (Some(true), None) => {
            Err(format!("tokenizer.ggml.add_{name}_token is true, but tokenizer.ggml.{name}_token_id is missing"))
        }
        (add, id) => Ok(id.filter(|_| add.unwrap_or(by_default))),
    };
    tokenizer.first = wanted(vocab.add_bos, adds_bos, vocab.bos, "bos")?;
    tokenizer.last = wanted(vocab.add_eos, false, vocab.eos, "eos")?;
    Ok(tokenizer)
}

//! One tokenizer, whatever it came from: text to ids, ids to text.

use crate::decode::{Decoder, StreamState};
use crate::spm::Spm;
use serde_json::Value;
use tokenizers::{AddedVocabulary, Model, OffsetReferential, OffsetType, PreTokenizer, Tokenizer as HfTokenizer};

/// Ids of the tokens with a role; `None` where the tokenizer has none.
#[derive(Default, Clone, Debug)]
pub struct SpecialIds {
    pub bos: Option<u32>,
    pub eos: Option<u32>,
    pub unknown: Option<u32>,
    pub pad: Option<u32>,
    /// All at which an answer ends, EOS first.
    pub ends: Vec<u32>,
}

pub struct Tokenizer {
    pub(crate) hf: HfTokenizer,
    /// The added vocabulary of `hf`, but treating special tokens in a text as plain text.
    pub(crate) plain_added: AddedVocabulary,
    /// The merging of SentencePiece-style GGUF vocabularies; the model inside `hf` then only names ids.
    pub(crate) spm: Option<Spm>,
    /// Put around a text on request (GGUF); tokenizer.json files say it in their post-processor.
    pub(crate) first: Option<u32>,
    pub(crate) last: Option<u32>,
    /// The text of each id as the vocabulary spells it.
    pub(crate) texts: Vec<Option<String>>,
    pub(crate) decoder: Decoder,
    pub(crate) special: SpecialIds,
}

/// More ids than this are no vocabulary but a fault of the file.
const MAX_VOCABULARY: u32 = 1 << 24;

impl Tokenizer {
    /// From the bytes of a tokenizer.json, and of a tokenizer_config.json (empty: none), which names BOS, EOS, ...
    pub fn from_json(json: &[u8], config: &[u8]) -> Result<Tokenizer, String> {
        let document: Value =
            serde_json::from_slice(json).map_err(|error| format!("tokenizer.json: not valid JSON: {error}"))?;
        if !document["model"]["dropout"].is_null() && document["model"]["dropout"].as_f64() != Some(0.0) {
            return Err("tokenizer.json: field 'model.dropout' would make token ids random; set it to null".into());
        }
        drop(document);
        let mut hf = HfTokenizer::from_bytes(json).map_err(|error| format!("tokenizer.json: {error}"))?;
        hf.with_padding(None);
        hf.with_truncation(None).map_err(|error| format!("tokenizer.json: {error}"))?;
        hf.set_encode_special_tokens(false);
        let tokens = vocabulary(&hf)?;
        let decoder = match hf.get_decoder() {
            Some(decoder) => serde_json::to_value(decoder).map_err(|error| format!("tokenizer.json: {error}"))?,
            None => Value::Null,
        };
        let decoder = Decoder::from_json(&decoder, &tokens)?;
        let special = special_of_config(&hf, config)?;
        Ok(Tokenizer::assemble(hf, tokens, decoder, special))
    }

    pub(crate) fn assemble(
        hf: HfTokenizer,
        tokens: Vec<Option<(String, bool)>>,
        decoder: Decoder,
        special: SpecialIds,
    ) -> Tokenizer {
        let mut plain_added = hf.get_added_vocabulary().clone();
        plain_added.set_encode_special_tokens(true);
        let texts = tokens.into_iter().map(|token| token.map(|(text, _)| text)).collect();
        Tokenizer { hf, plain_added, spm: None, first: None, last: None, texts, decoder, special }
    }

    /// Token ids of a text. Broken UTF-8 counts as U+FFFD for each maximal broken part. `add_special`: with the tokens
    /// that the tokenizer puts around a text; `parse_special`: special tokens spelled in the text become their ids.
    pub fn encode(&self, text: &[u8], add_special: bool, parse_special: bool) -> Result<Vec<u32>, String> {
        let text = String::from_utf8_lossy(text);
        let added = if parse_special { self.hf.get_added_vocabulary() } else { &self.plain_added };
        let mut split = added.extract_and_normalize(self.hf.get_normalizer(), &text);
        let mut ids = vec![];
        if add_special {
            ids.extend(self.first);
        }
        if let Some(spm) = &self.spm {
            for (text, _, tokens) in split.get_splits(OffsetReferential::Original, OffsetType::None) {
                match tokens {
                    Some(tokens) => ids.extend(tokens.iter().map(|token| token.id)),
                    None => spm.encode(text, &mut ids),
                }
            }
        } else {
            if let Some(pre_tokenizer) = self.hf.get_pre_tokenizer() {
                pre_tokenizer.pre_tokenize(&mut split).map_err(cannot_encode)?;
            }
            self.hf.get_model().tokenize_in_pretokenized(&mut split, None).map_err(cannot_encode)?;
            let encoding = split.into_encoding(None, 0, OffsetType::None).map_err(cannot_encode)?;
            let encoding = self.hf.post_process(encoding, None, add_special).map_err(cannot_encode)?;
            ids.extend_from_slice(encoding.get_ids());
        }
        if add_special {
            ids.extend(self.last);
        }
        Ok(ids)
    }

    /// The text of ids; see `Decoder::start` for `continuation`. Unknown ids add nothing.
    pub fn decode(&self, ids: &[u32], skip_special: bool, continuation: bool) -> String {
        let mut text = String::new();
        let mut state = self.decoder.start(continuation);
        for &id in ids {
            self.push(&mut state, id, skip_special, &mut text);
        }
        self.decoder.finish(&mut state, &mut text);
        text
    }

    pub fn push(&self, state: &mut StreamState, id: u32, skip_special: bool, out: &mut String) {
        self.decoder.push(state, id, skip_special, self.token_text(id), out);
    }

    pub fn decoder(&self) -> &Decoder {
        &self.decoder
    }

    /// One more than the greatest id.
    pub fn size(&self) -> usize {
        self.texts.len()
    }

    pub fn special(&self) -> &SpecialIds {
        &self.special
    }

    pub fn token_text(&self, id: u32) -> Option<&str> {
        self.texts.get(id as usize)?.as_deref()
    }

    pub fn token_id(&self, text: &str) -> Option<u32> {
        self.hf.token_to_id(text)
    }
}

fn cannot_encode(error: tokenizers::Error) -> String {
    format!("the tokenizer can not encode this text: {error}")
}

/// (text as the decoder wants it, special) of every id.
fn vocabulary(hf: &HfTokenizer) -> Result<Vec<Option<(String, bool)>>, String> {
    let ids = hf.get_vocab(true);
    let greatest = ids.values().copied().max().ok_or("tokenizer.json: the vocabulary is empty")?;
    if greatest >= MAX_VOCABULARY {
        return Err(format!("tokenizer.json: token id {greatest} is beyond {MAX_VOCABULARY}: the file is damaged"));
    }
    let added = hf.get_added_vocabulary();
    let mut tokens = vec![None; greatest as usize + 1];
    for id in ids.into_values() {
        let text = added.simple_id_to_token(id).or_else(|| hf.get_model().id_to_token(id));
        tokens[id as usize] = text.map(|text| {
            let special = added.is_special_token(&text);
            (text, special)
        });
    }
    Ok(tokens)
}

/// The name of a token in tokenizer_config.json: a string, or an object with its content.
pub fn config_token<'a>(config: &'a Value, field: &str) -> Option<&'a str> {
    config[field].as_str().or_else(|| config[field]["content"].as_str())
}

fn special_of_config(hf: &HfTokenizer, config: &[u8]) -> Result<SpecialIds, String> {
    if config.is_empty() {
        return Ok(SpecialIds::default());
    }
    let config: Value =
        serde_json::from_slice(config).map_err(|error| format!("tokenizer_config.json: not valid JSON: {error}"))?;
    let id = |field: &str| match config_token(&config, field) {
        None => Ok(None),
        Some(text) => match hf.token_to_id(text) {
            Some(id) => Ok(Some(id)),
            None => Err(format!("tokenizer_config.json: field '{field}' names '{text}', no token of tokenizer.json")),
        },
    };
    let eos = id("eos_token")?;
    Ok(SpecialIds {
        bos: id("bos_token")?,
        eos,
        ends: eos.into_iter().collect(),
        unknown: id("unk_token").unwrap_or(None),
        pad: id("pad_token").unwrap_or(None),
    })
}

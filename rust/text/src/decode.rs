//! Token ids back to text, whole or token by token.
//!
//! Every token of a supported decoder stands for fixed bytes, so decoding is concatenation followed by one lossy UTF-8
//! conversion. The whole decode is defined as the stream run to its end: the two can not differ. (The one deviation
//! from the `tokenizers` library: a run of byte-fallback tokens with one broken character keeps its good characters,
//! where the library replaces every byte of the run.)

use crate::byte_level;
use serde_json::Value;

/// How a tokenizer's ids become text.
pub struct Decoder {
    /// Bytes of token i: `bytes[ends[i - 1]..ends[i]]`; unknown ids have none.
    bytes: Vec<u8>,
    ends: Vec<usize>,
    special: Vec<bool>,
    rules: Rules,
}

/// What depends on the position in the text.
#[derive(Default, Clone, Debug, PartialEq)]
struct Rules {
    /// Metaspace: this character vanishes from the first token instead of becoming a space.
    dropped_from_first: Option<char>,
    /// Strip after Fuse: at most this many of this character vanish from the start of the text.
    strip: Option<(char, usize)>,
    /// No decoder at all: tokens are joined with a space.
    joined_by_space: bool,
}

/// What one token goes through on its own.
#[derive(Clone, Debug, PartialEq)]
enum Step {
    ByteLevel,
    ByteFallback,
    Replace(String, String),
    Metaspace(char),
    Strip(char, usize, usize),
}

/// Where a stream stands: bytes of an unfinished character, and what is left to strip.
#[derive(Default, Clone)]
pub struct StreamState {
    pending: Vec<u8>,
    started: bool,
    left_to_strip: usize,
}

impl Decoder {
    /// From the `decoder` member of a tokenizer.json (null: none) and the vocabulary: (text, special) per id.
    pub fn from_json(json: &Value, tokens: &[Option<(String, bool)>]) -> Result<Decoder, String> {
        let (steps, rules) = parse(json)?;
        Ok(Decoder::build(tokens, rules, |text| piece(text, &steps)))
    }

    /// SentencePiece rules: U+2581 is a space, `<0xXX>` a byte where `is_byte(id)`, and one leading space goes if the
    /// tokenizer puts one in front.
    pub fn sentencepiece(tokens: &[Option<(String, bool)>], is_byte: &[bool], strips_space: bool) -> Decoder {
        let rules = Rules { strip: strips_space.then_some((' ', 1)), ..Rules::default() };
        let mut id = 0;
        Decoder::build(tokens, rules, |text| {
            id += 1;
            match parse_byte_token(text) {
                Some(byte) if is_byte[id - 1] => vec![byte],
                _ => text.replace('\u{2581}', " ").into_bytes(),
            }
        })
    }

    fn build(tokens: &[Option<(String, bool)>], rules: Rules, mut piece: impl FnMut(&str) -> Vec<u8>) -> Decoder {
        let mut decoder = Decoder { bytes: vec![], ends: vec![], special: vec![], rules };
        for token in tokens {
            let (text, special) = token.as_ref().map_or(("", false), |(text, special)| (text, *special));
            decoder.bytes.extend(piece(text));
            decoder.ends.push(decoder.bytes.len());
            decoder.special.push(special);
        }
        decoder
    }

    /// The bytes that a token stands for in the middle of a text.
    pub fn token_bytes(&self, id: u32) -> &[u8] {
        let id = id as usize;
        if id >= self.ends.len() {
            return &[];
        }
        let start = if id == 0 { 0 } else { self.ends[id - 1] };
        &self.bytes[start..self.ends[id]]
    }

    pub fn is_special(&self, id: u32) -> bool {
        self.special.get(id as usize).copied().unwrap_or(false)
    }

    /// Its tokens have no bytes of their own: a space goes between any two.
    pub fn joins_by_space(&self) -> bool {
        self.rules.joined_by_space
    }

    /// A stream at the start of a text, or (`continuation`) after tokens that were already shown: then a leading space
    /// stays, since it separates words.
    pub fn start(&self, continuation: bool) -> StreamState {
        let left_to_strip = match self.rules.strip {
            Some((_, count)) if !continuation => count,
            _ => 0,
        };
        StreamState { pending: vec![], started: continuation, left_to_strip }
    }

    /// Appends what becomes certain with this token; a character's bytes wait until it is whole.
    pub fn push(&self, state: &mut StreamState, id: u32, skip_special: bool, text: Option<&str>, out: &mut String) {
        if (id as usize) >= self.ends.len() || (skip_special && self.is_special(id)) {
            return;
        }
        if self.rules.joined_by_space && state.started {
            state.pending.push(b' ');
        }
        match (self.rules.dropped_from_first, text) {
            (Some(dropped), Some(text)) if !state.started => {
                state.pending.extend(text.chars().filter(|c| *c != dropped).collect::<String>().into_bytes());
            }
            _ => state.pending.extend_from_slice(self.token_bytes(id)),
        }
        state.started = true;
        let start = out.len();
        take_whole_characters(&mut state.pending, out);
        self.strip_front(state, start, out);
    }

    /// Ends a text: an unfinished character becomes U+FFFD.
    pub fn finish(&self, state: &mut StreamState, out: &mut String) {
        if !state.pending.is_empty() {
            state.pending.clear();
            state.left_to_strip = 0;
            out.push('\u{FFFD}');
        }
    }

    fn strip_front(&self, state: &mut StreamState, start: usize, out: &mut String) {
        let Some((stripped, _)) = self.rules.strip else { return };
        while state.left_to_strip > 0 && out.len() > start {
            if out[start..].starts_with(stripped) {
                out.drain(start..start + stripped.len_utf8());
                state.left_to_strip -= 1;
            } else {
                state.left_to_strip = 0;
            }
        }
    }
}

/// Moves all whole characters to `out`, broken ones as U+FFFD (one for each maximal broken part, as Python and WHATWG
/// do); an unfinished but so far valid character stays.
fn take_whole_characters(pending: &mut Vec<u8>, out: &mut String) {
    let mut rest = &pending[..];
    loop {
        match std::str::from_utf8(rest) {
            Ok(text) => {
                out.push_str(text);
                rest = &[];
                break;
            }
            Err(error) => {
                let (valid, after) = rest.split_at(error.valid_up_to());
                out.push_str(std::str::from_utf8(valid).expect("checked"));
                rest = after;
                let Some(broken) = error.error_len() else { break };
                out.push('\u{FFFD}');
                rest = &rest[broken..];
            }
        }
    }
    let kept = rest.len();
    pending.drain(..pending.len() - kept);
}

/// `<0xXX>` with two hexadecimal digits.
pub fn parse_byte_token(text: &str) -> Option<u8> {
    let digits = text.strip_prefix("<0x")?.strip_suffix('>')?;
    if digits.len() != 2 || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    u8::from_str_radix(digits, 16).ok()
}

fn piece(text: &str, steps: &[Step]) -> Vec<u8> {
    let mut text = text.to_string();
    for step in steps {
        match step {
            Step::ByteLevel => return byte_level::decode(&text),
            Step::ByteFallback => {
                if let Some(byte) = parse_byte_token(&text) {
                    return vec![byte];
                }
            }
            Step::Replace(from, to) => text = text.replace(from.as_str(), to),
            Step::Metaspace(c) => text = text.replace(*c, " "),
            Step::Strip(c, start, stop) => text = strip_token(&text, *c, *start, *stop),
        }
    }
    text.into_bytes()
}

fn strip_token(text: &str, c: char, start: usize, stop: usize) -> String {
    let mut text = text;
    for _ in 0..start {
        text = text.strip_prefix(c).unwrap_or(text);
    }
    for _ in 0..stop {
        text = text.strip_suffix(c).unwrap_or(text);
    }
    text.to_string()
}

fn parse(json: &Value) -> Result<(Vec<Step>, Rules), String> {
    let mut rules = Rules { joined_by_space: json.is_null(), ..Rules::default() };
    let mut steps = vec![];
    let mut fused = false;
    let mut flat = vec![];
    flatten(json, &mut flat);
    for step in flat {
        let kind = step["type"].as_str().unwrap_or("");
        let bytes_made = matches!(steps.last(), Some(Step::ByteLevel | Step::ByteFallback));
        match kind {
            "Fuse" => fused = true,
            "Strip" if fused && step["stop"].as_u64() == Some(0) && rules.strip.is_none() => {
                rules.strip = Some((character(step, "content")?, count(step, "start")?));
            }
            _ if fused || bytes_made => return Err(unsupported(kind, "after the tokens were joined")),
            "ByteLevel" => {
                steps.push(Step::ByteLevel);
                fused = true;
            }
            "ByteFallback" => steps.push(Step::ByteFallback),
            "Replace" => {
                let pattern = step["pattern"]["String"].as_str().filter(|pattern| !pattern.is_empty());
                let pattern = pattern.ok_or_else(|| unsupported("Replace", "with a regular expression"))?;
                steps.push(Step::Replace(pattern.into(), step["content"].as_str().unwrap_or("").into()));
            }
            "Metaspace" => {
                let replacement = character(step, "replacement")?;
                if step["prepend_scheme"].as_str() != Some("never") {
                    if !steps.is_empty() {
                        return Err(unsupported("Metaspace", "after another step"));
                    }
                    rules.dropped_from_first = Some(replacement);
                }
                steps.push(Step::Metaspace(replacement));
            }
            "Strip" => {
                steps.push(Step::Strip(character(step, "content")?, count(step, "start")?, count(step, "stop")?))
            }
            _ => return Err(unsupported(kind, "here")),
        }
    }
    if rules.dropped_from_first.is_some() && steps.len() > 1 {
        return Err(unsupported("Metaspace", "before another step"));
    }
    Ok((steps, rules))
}

fn flatten<'a>(json: &'a Value, out: &mut Vec<&'a Value>) {
    match json["decoders"].as_array() {
        Some(decoders) => decoders.iter().for_each(|decoder| flatten(decoder, out)),
        None if json.is_null() => {}
        None => out.push(json),
    }
}

fn character(step: &Value, field: &str) -> Result<char, String> {
    let text = step[field].as_str().unwrap_or("");
    let mut chars = text.chars();
    match (chars.next(), chars.next()) {
        (Some(c), None) => Ok(c),
        _ => Err(format!("tokenizer.json: decoder field '{field}' must be one character, found '{text}'")),
    }
}

fn count(step: &Value, field: &str) -> Result<usize, String> {
    let value = step[field].as_u64().filter(|n| *n <= 64);
    value
        .map(|n| n as usize)
        .ok_or_else(|| format!("tokenizer.json: decoder field '{field}' must be a number up to 64"))
}

fn unsupported(kind: &str, place: &str) -> String {
    format!(
        "tokenizer.json: decoder '{kind}' {place} is not supported; supported are ByteLevel, Metaspace, and sequences \
         of Replace, ByteFallback, Fuse and Strip"
    )
}

//! Guides: which tokens may follow so that an answer matches a JSON schema, a regular expression or a grammar.
//!
//! The work is done by llguidance on bytes: a token may follow where its bytes can. Nothing is forced and nothing
//! depends on how a text would be tokenised, so a mask is a function of the tokens before it.

use crate::template::on_large_stack;
use crate::tokenizer::Tokenizer;
use llguidance::api::{ParserLimits, TopLevelGrammar};
use llguidance::toktrie::{ApproximateTokEnv, InferenceCapabilities, TokEnv, TokRxInfo, TokTrie, INVALID_TOKEN};
use llguidance::{Matcher, ParserFactory};
use serde_json::{json, Value};
use std::sync::Arc;

/// Longer texts than this are refused before anything reads them.
const MAX_SCHEMA: usize = 1 << 20;
const MAX_GRAMMAR: usize = 256 << 10;

/// Brackets of a grammar or a regular expression that may be open at once: parsing takes stack for each.
const MAX_NESTING: usize = 100;

/// Tokens of more bytes may never follow: llguidance keeps no longer ones. (Runs of spaces, in a few vocabularies.)
const MAX_TOKEN: usize = 1000;

/// Between the tokens of a JSON text: nothing, a space, or a line break and its indentation. A model that may write
/// any number of spaces sometimes writes nothing else.
const WHITE_SPACE: &str = r"\x20|\x0A\x20{0,32}|\x0A\x09{0,8}";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    JsonSchema,
    Regex,
    Lark,
}

/// Makes guides for one vocabulary.
pub struct GuideFactory {
    factory: ParserFactory,
    ends: Arc<[u32]>,
}

/// A place in a grammar.
pub struct Guide {
    matcher: Matcher,
    ends: Arc<[u32]>,
}

/// What the rules that can begin at one place may cost together: llguidance looks for each alternative of each
/// reference among all those that it has, and meters none of it. A few seconds.
const MAX_WORK: u64 = 20_000_000_000;

/// What a grammar may cost. Its fuel is the same on every machine.
fn limits() -> ParserLimits {
    ParserLimits {
        initial_lexer_fuel: 2_000_000,
        step_lexer_fuel: 1_000_000,
        step_max_items: 100_000,
        max_lexer_states: 30_000,
        max_grammar_size: 50_000,
        verbose_errors: false,
        ..ParserLimits::default()
    }
}

impl GuideFactory {
    /// `ends`: the tokens at which an answer ends.
    pub fn new(tokenizer: &Tokenizer, ends: &[u32]) -> Result<GuideFactory, String> {
        if tokenizer.decoder().joins_by_space() {
            return Err("this model's tokenizer has no decoder, so its tokens have no bytes of their own".into());
        }
        let size = tokenizer.size() as u32;
        let ends: Arc<[u32]> = ends.iter().copied().filter(|id| *id < size).collect();
        let words: Vec<Vec<u8>> = (0..size).map(|id| word(tokenizer, id, &ends)).collect();
        let info = TokRxInfo::new(size, ends.first().copied().unwrap_or(INVALID_TOKEN));
        let mut trie = TokTrie::from(&info, &words);
        if !ends.is_empty() {
            trie = trie.with_eos_tokens(&ends);
        }
        let environment: TokEnv = Arc::new(ApproximateTokEnv::new(trie));
        let slices = llguidance::earley::SlicedBiasComputer::general_slices();
        let mut factory =
            ParserFactory::new(&environment, InferenceCapabilities::default(), &slices).map_err(|e| e.to_string())?;
        factory.quiet();
        *factory.limits_mut() = limits();
        Ok(GuideFactory { factory, ends })
    }

    /// A guide at its beginning. Errors say what cannot be expressed, or that it would cost too much.
    pub fn guide(&self, kind: Kind, text: &[u8]) -> Result<Guide, String> {
        let text = std::str::from_utf8(text).map_err(|error| format!("not valid UTF-8: {error}"))?;
        let grammar = grammar(kind, text)?;
        on_large_stack(|| {
            let parser = self.factory.create_parser(grammar).map_err(|error| first_lines(&error.to_string()))?;
            let mut guide = Guide { matcher: Matcher::new(Ok(parser)), ends: self.ends.clone() };
            // Also an empty language is found here, and what every answer needs first is computed once.
            let mut words = vec![0u32; self.factory.tok_env().tok_trie().vocab_size().div_ceil(32)];
            guide.mask(&mut words).map_err(|error| format!("nothing can match it: {error}"))?;
            Ok(guide)
        })
    }
}

impl Guide {
    /// Sets bit t % 32 of word t / 32 where token t may follow, and clears all others.
    pub fn mask(&mut self, words: &mut [u32]) -> Result<(), String> {
        let mask = self.matcher.compute_mask_or_eos().map_err(|error| first_lines(&error.to_string()))?;
        let accepting = self.matcher.is_accepting().map_err(|error| first_lines(&error.to_string()))?;
        words.fill(0);
        let size = words.len().min(mask.as_slice().len());
        words[..size].copy_from_slice(&mask.as_slice()[..size]);
        let whole = accepting || self.finished();
        let bits = words.len() * 32;
        for &id in self.ends.iter().filter(|id| (**id as usize) < bits) {
            let bit = 1 << (id % 32);
            let word = &mut words[id as usize / 32];
            *word = if whole { *word | bit } else { *word & !bit };
        }
        match words.iter().all(|word| *word == 0) {
            true => Err("no token of the vocabulary can follow".into()),
            false => Ok(()),
        }
    }

    /// Moves over a token; where it may not follow, that is an error and the guide stays.
    pub fn accept(&mut self, token: u32) -> Result<(), String> {
        let refused = || format!("token {token} may not follow here");
        if self.finished() {
            return Err(refused());
        }
        match self.matcher.try_consume_tokens(&[token]) {
            Ok(1) => Ok(()),
            Ok(_) => Err(refused()),
            Err(error) => Err(first_lines(&error.to_string())),
        }
    }

    /// Nothing may follow.
    pub fn finished(&self) -> bool {
        self.matcher.is_stopped() && self.matcher.stop_reason().is_ok()
    }

    /// Takes the last `count` tokens back.
    pub fn rollback(&mut self, count: usize) -> Result<(), String> {
        self.matcher.rollback(count).map_err(|error| first_lines(&error.to_string()))
    }

    /// One at the same place that shares nothing with this one, not even what was computed so far.
    pub fn fork(&self) -> Guide {
        Guide { matcher: self.matcher.deep_clone(), ends: self.ends.clone() }
    }
}

/// The bytes of a token as the trie wants them: special ones behind a byte that no text has.
fn word(tokenizer: &Tokenizer, id: u32, ends: &[u32]) -> Vec<u8> {
    let bytes = tokenizer.decoder().token_bytes(id);
    if tokenizer.decoder().is_special(id) || ends.contains(&id) {
        let name = tokenizer.token_text(id).unwrap_or("").as_bytes();
        let known = !name.is_empty() && name.len() < MAX_TOKEN;
        return if known { [&[TokTrie::SPECIAL_TOKEN_MARKER], name].concat() } else { vec![] };
    }
    let usable = bytes.len() <= MAX_TOKEN && bytes.first() != Some(&TokTrie::SPECIAL_TOKEN_MARKER);
    if usable {
        bytes.to_vec()
    } else {
        vec![]
    }
}

fn grammar(kind: Kind, text: &str) -> Result<TopLevelGrammar, String> {
    let most = if kind == Kind::JsonSchema { MAX_SCHEMA } else { MAX_GRAMMAR };
    if text.len() > most {
        return Err(format!("it has {} bytes; at most {most} are taken", text.len()));
    }
    match kind {
        Kind::JsonSchema => Ok(TopLevelGrammar::from_json_schema(schema(text)?)),
        Kind::Regex => {
            check_nesting(text)?;
            Ok(TopLevelGrammar::from_regex(text))
        }
        Kind::Lark => {
            check_nesting(text)?;
            check_grammar(text)?;
            Ok(TopLevelGrammar::from_lark(text.to_string()))
        }
    }
}

/// The schema with our white space. `x-guidance` would let a request switch off refusals.
fn schema(text: &str) -> Result<Value, String> {
    let mut schema: Value = serde_json::from_str(text).map_err(|error| format!("not valid JSON: {error}"))?;
    if schema == Value::Bool(true) {
        schema = json!({});
    }
    Unions::check(&schema)?;
    let Some(object) = schema.as_object_mut() else {
        return Err("a JSON schema is an object (or true)".into());
    };
    if object.contains_key("x-guidance") {
        return Err("the keyword 'x-guidance' is not taken".into());
    }
    object.insert("x-guidance".into(), json!({ "whitespace_pattern": WHITE_SPACE }));
    Ok(schema)
}

/// Counts words and bars of the grammar itself; the schemas inside are looked at on their own.
fn check_grammar(text: &str) -> Result<(), String> {
    let (mut words, mut bars, mut in_word) = (0, 1, false);
    let mut rest = text;
    while let Some(byte) = rest.bytes().next() {
        if let Some(schema) = rest.strip_prefix("%json") {
            let mut values = serde_json::Deserializer::from_str(schema).into_iter::<Value>();
            if let Some(Ok(value)) = values.next() {
                Unions::check(&value)?;
                rest = &schema[values.byte_offset()..];
                continue;
            }
        }
        let is_word = byte.is_ascii_alphanumeric() || byte == b'_';
        words += u64::from(is_word && !in_word);
        bars += u64::from(byte == b'|');
        in_word = is_word;
        let size = rest.chars().next().map_or(1, char::len_utf8);
        rest = &rest[size..];
    }
    check_work(words, bars)
}

fn check_work(rules: u64, alternatives: u64) -> Result<(), String> {
    match rules.saturating_mul(rules).saturating_mul(alternatives) > MAX_WORK {
        true => Err("it has too many alternatives and references between them".into()),
        false => Ok(()),
    }
}

/// What makes the grammar of a schema wide.
#[derive(Default)]
struct Unions {
    references: u64,
    /// Members of all anyOf and oneOf, and of the widest.
    all: u64,
    widest: u64,
}

impl Unions {
    fn check(schema: &Value) -> Result<(), String> {
        let mut unions = Unions::default();
        unions.count(schema);
        check_work(unions.references + unions.all, unions.widest)
    }

    fn count(&mut self, value: &Value) {
        match value {
            Value::Array(elements) => elements.iter().for_each(|element| self.count(element)),
            Value::Object(members) => members.iter().for_each(|(key, member)| {
                self.references += u64::from(key == "$ref");
                if let (true, Some(union)) = (key == "anyOf" || key == "oneOf", member.as_array()) {
                    self.all += union.len() as u64;
                    self.widest = self.widest.max(union.len() as u64);
                }
                self.count(member);
            }),
            _ => {}
        }
    }
}

/// Counts brackets, those inside strings and classes too: an upper bound is all that is needed.
fn check_nesting(text: &str) -> Result<(), String> {
    let (mut depth, mut escaped) = (0usize, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => {}
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        escaped = byte == b'\\' && !escaped;
        if depth > MAX_NESTING {
            return Err(format!("brackets are nested deeper than {MAX_NESTING} levels"));
        }
    }
    Ok(())
}

/// Without the state and the back trace that llguidance adds.
fn first_lines(message: &str) -> String {
    let ends = ["\n<state>", "\n<non-verbose", "\n<backtrace>"];
    let end = ends.iter().filter_map(|end| message.find(end)).min().unwrap_or(message.len());
    match message[..end].strip_prefix("panic: ") {
        Some(panic) => format!("the grammar library met a fault: {panic}"),
        None => message[..end].to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gguf::{from_gguf, Vocab};

    /// One token for each printable ASCII character, some words, and an end token (the last).
    fn tokenizer() -> Tokenizer {
        let mut tokens: Vec<String> = (33u8..127).map(|c| (c as char).to_string()).collect();
        tokens.extend(["\u{120}", "\u{10a}", "true", "{\"", "\":", "ab", "<end>"].map(String::from));
        let texts: Vec<&str> = tokens.iter().map(String::as_str).collect();
        let mut types = vec![1; texts.len()];
        types[texts.len() - 1] = 3;
        from_gguf(&Vocab {
            model: "gpt2",
            pre: "gpt-2",
            tokens: texts.clone(),
            scores: &[],
            token_types: &types,
            merges: vec!["a b"],
            bos: None,
            eos: Some(texts.len() as u32 - 1),
            unknown: None,
            pad: None,
            add_bos: None,
            add_eos: None,
            add_space_prefix: None,
        })
        .unwrap()
    }

    fn factory() -> (GuideFactory, Tokenizer, u32) {
        let tokenizer = tokenizer();
        let end = tokenizer.size() as u32 - 1;
        (GuideFactory::new(&tokenizer, &[end]).unwrap(), tokenizer, end)
    }

    fn allowed(guide: &mut Guide, id: u32) -> bool {
        let mut words = vec![0u32; 8];
        guide.mask(&mut words).unwrap();
        words[id as usize / 32] >> (id % 32) & 1 == 1
    }

    /// Whether the guide takes the text character by character, and may end there.
    fn matches(guide: &Guide, tokenizer: &Tokenizer, text: &str, end: u32) -> bool {
        let mut guide = guide.fork();
        for c in text.chars() {
            let spelled = match c {
                ' ' => "\u{120}".to_string(),
                '\n' => "\u{10a}".to_string(),
                c => c.to_string(),
            };
            if guide.accept(tokenizer.token_id(&spelled).unwrap()).is_err() {
                return false;
            }
        }
        guide.finished() || allowed(&mut guide, end)
    }

    #[test]
    fn schemas_regular_expressions_and_grammars() {
        let (factory, tokenizer, end) = factory();
        let schema =
            br#"{"type":"object","properties":{"a":{"type":"boolean"}},"required":["a"],"additionalProperties":false}"#;
        let guide = factory.guide(Kind::JsonSchema, schema).unwrap();
        assert!(matches(&guide, &tokenizer, "{\"a\": true}", end));
        assert!(matches(&guide, &tokenizer, "{\n \"a\":false}", end));
        assert!(!matches(&guide, &tokenizer, "{\"a\": 1}", end));
        assert!(!matches(&guide, &tokenizer, "{\"a\":  true}", end));
        let guide = factory.guide(Kind::Regex, b"[a-c]{2}/x?").unwrap();
        assert!(matches(&guide, &tokenizer, "ab/", end) && matches(&guide, &tokenizer, "ca/x", end));
        assert!(!matches(&guide, &tokenizer, "ab", end));
        let guide = factory.guide(Kind::Lark, b"start: \"a\" (\"b\" | \"c\")*").unwrap();
        assert!(matches(&guide, &tokenizer, "abcb", end) && !matches(&guide, &tokenizer, "ad", end));
    }

    #[test]
    fn ends_may_follow_exactly_where_the_text_is_whole() {
        let (factory, tokenizer, end) = factory();
        let mut guide = factory.guide(Kind::Regex, b"ab+").unwrap();
        let id = |text: &str| tokenizer.token_id(text).unwrap();
        assert!(!allowed(&mut guide, end) && allowed(&mut guide, id("ab")) && allowed(&mut guide, id("a")));
        assert!(guide.accept(end).is_err());
        guide.accept(id("a")).unwrap();
        assert!(!allowed(&mut guide, end) && guide.accept(id("a")).is_err());
        guide.accept(id("b")).unwrap();
        assert!(allowed(&mut guide, end) && !guide.finished());
        let fork = guide.fork();
        guide.accept(end).unwrap();
        assert!(guide.finished() && guide.accept(id("b")).is_err());
        guide.rollback(2).unwrap();
        assert!(!allowed(&mut guide, end) && allowed(&mut guide, id("b")));
        assert!(allowed(&mut { fork }, end));
        let mut fixed = factory.guide(Kind::JsonSchema, br#"{"const":[true]}"#).unwrap();
        for token in ["[", "true", "]"] {
            assert!(!fixed.finished());
            fixed.accept(id(token)).unwrap();
        }
        assert!(fixed.finished() || allowed(&mut fixed, end));
    }

    #[test]
    fn what_cannot_be_expressed_is_named() {
        let (factory, _, _) = factory();
        let error = |kind, text: &str| factory.guide(kind, text.as_bytes()).err().unwrap();
        for (schema, name) in [
            (r#"{"not":{"type":"string"}}"#, "not"),
            (r#"{"type":"array","uniqueItems":true}"#, "uniqueItems"),
            (r#"{"if":{"type":"string"},"then":{"const":"a"}}"#, "if"),
            (r#"{"type":"string","format":"color"}"#, "color"),
            (r#"{"type":"object","dependentRequired":{"a":["b"]}}"#, "dependentRequired"),
            (r#"{"$ref":"https://example.org/s.json"}"#, "example.org"),
            (r#"{"x-guidance":{"lenient":true}}"#, "x-guidance"),
            (r#"{"type":"integer","minimum":3,"maximum":2}"#, "3"),
            (r#"{"type":"#, "not valid JSON"),
            ("[]", "object"),
        ] {
            let message = error(Kind::JsonSchema, schema);
            assert!(message.contains(name), "{schema}: {message}");
            assert!(message.len() < 600, "{message}");
        }
        assert!(!error(Kind::Regex, "a(").is_empty());
        assert!(!error(Kind::Regex, r"(?=a)b").is_empty());
        assert!(error(Kind::Lark, "begin: \"a\"").contains("start"));
    }

    /// Each ends in an error or a guide, soon and without much memory.
    #[test]
    fn hostile_ones_end() {
        let (factory, _, _) = factory();
        let deep = |open: &str, close: &str, n: usize| open.repeat(n) + "1" + &close.repeat(n);
        let object = |n: usize| "{\"properties\":{\"a\":".repeat(n) + "{}" + &"}}".repeat(n);
        let wide: String = (0..20_000).map(|i| format!("\"p{i}\":{{\"type\":\"integer\"}},")).collect();
        let branches = (0..200).map(|i| format!("{{\"$ref\":\"#/$defs/d{i}\"}}")).collect::<Vec<_>>().join(",");
        let defs = (0..200).map(|i| format!("\"d{i}\":{{\"anyOf\":[{branches}]}}")).collect::<Vec<_>>().join(",");
        let hostile: Vec<(Kind, String)> = vec![
            (Kind::JsonSchema, deep("{\"items\":", "}", 100_000)),
            (Kind::JsonSchema, object(60)),
            (Kind::JsonSchema, format!("{{\"properties\":{{{}\"z\":{{}}}}}}", wide)),
            (Kind::JsonSchema, format!("{{\"$ref\":\"#/$defs/d0\",\"$defs\":{{{defs}}}}}")),
            (Kind::JsonSchema, r##"{"$ref":"#"}"##.into()),
            (Kind::JsonSchema, r##"{"allOf":[{"$ref":"#"},{"$ref":"#"}]}"##.into()),
            (Kind::JsonSchema, r#"{"type":"string","pattern":"(a{1000}){1000}"}"#.into()),
            (Kind::JsonSchema, r#"{"type":"string","pattern":"(x+x+)+y|(.*a){50}.*b{900}"}"#.into()),
            (Kind::JsonSchema, r#"{"type":"array","minItems":100000000,"items":{"type":"integer"}}"#.into()),
            (Kind::JsonSchema, r#"{"type":"string","minLength":1000000000}"#.into()),
            (Kind::JsonSchema, r#"{"type":"integer","multipleOf":1000000007}"#.into()),
            (Kind::JsonSchema, r#"{"type":"number","multipleOf":1e-300}"#.into()),
            (Kind::JsonSchema, " ".repeat(2 << 20)),
            (Kind::Regex, "(".repeat(50_000) + &")".repeat(50_000)),
            (Kind::Regex, "((((((a{99}){99}){99}){99}){99}){99})".into()),
            (Kind::Regex, "(.*.*.*.*.*.*.*.*.*.*=.*){40}".into()),
            (Kind::Regex, "[a-z]*a[a-z]{60}".into()),
            (Kind::Lark, format!("start: {}\"a\"{}", "(".repeat(5_000), ")".repeat(5_000))),
            (Kind::Lark, "start: a{100000}\na: \"x\"{100000}".into()),
            (Kind::Lark, "start: start start | \"a\" |".into()),
            (Kind::Lark, "start: A\nA: B\nB: A".into()),
            (Kind::Lark, "%llguidance {\"no_forcing\": 3}\nstart: \"a\"".into()),
        ];
        for (i, (kind, text)) in hostile.iter().enumerate() {
            let begun = std::time::Instant::now();
            let made = factory.guide(*kind, text.as_bytes());
            let mut steps = 0;
            if let Ok(mut guide) = made {
                // Go on as a model would that takes the first token that may follow.
                let mut words = vec![0u32; 8];
                while steps < 200 && !guide.finished() && guide.mask(&mut words).is_ok() {
                    let first = words.iter().enumerate().find(|(_, word)| **word != 0);
                    let (at, word) = first.expect("mask() gives a token or an error");
                    guide.accept(at as u32 * 32 + word.trailing_zeros()).expect("the mask said so");
                    steps += 1;
                }
            }
            let took = begun.elapsed();
            println!("hostile {i}: {steps} steps, {took:?}");
            assert!(took.as_secs() < 60, "{i}: {took:?}");
        }
    }
}

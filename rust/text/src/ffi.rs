//! The C interface; its documentation is include/eadem_text.h.

use crate::decode::StreamState;
use crate::gguf::{from_gguf, Vocab};
use crate::guide::{Guide, GuideFactory, Kind};
use crate::template::{Limits, Template};
use crate::tokenizer::{config_token, Tokenizer};
use std::ffi::c_int;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Once;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Bytes {
    data: *const u8,
    size: usize,
}

#[repr(C)]
pub struct Buffer {
    data: *mut u8,
    size: usize,
    capacity: usize,
}

#[repr(C)]
pub struct Ids {
    data: *mut u32,
    size: usize,
    capacity: usize,
}

#[repr(C)]
pub struct GgufVocab {
    model: Bytes,
    pre: Bytes,
    tokens: *const Bytes,
    token_count: usize,
    scores: *const f32,
    score_count: usize,
    token_types: *const i32,
    token_type_count: usize,
    merges: *const Bytes,
    merge_count: usize,
    bos_id: i64,
    eos_id: i64,
    unknown_id: i64,
    pad_id: i64,
    add_bos: i32,
    add_eos: i32,
    add_space_prefix: i32,
}

pub struct Stream {
    tokenizer: *const Tokenizer,
    state: StreamState,
    skip_special: bool,
    continuation: bool,
}

impl Bytes {
    /// SAFETY: `data` must point to `size` readable bytes, or `size` be 0.
    unsafe fn get<'a>(self) -> &'a [u8] {
        slice(self.data, self.size)
    }

    fn of(bytes: &[u8]) -> Bytes {
        Bytes { data: bytes.as_ptr(), size: bytes.len() }
    }
}

impl From<Vec<u8>> for Buffer {
    fn from(bytes: Vec<u8>) -> Buffer {
        let mut bytes = std::mem::ManuallyDrop::new(bytes);
        Buffer { data: bytes.as_mut_ptr(), size: bytes.len(), capacity: bytes.capacity() }
    }
}

impl From<Vec<u32>> for Ids {
    fn from(ids: Vec<u32>) -> Ids {
        let mut ids = std::mem::ManuallyDrop::new(ids);
        Ids { data: ids.as_mut_ptr(), size: ids.len(), capacity: ids.capacity() }
    }
}

/// SAFETY: `data` must point to `size` readable values, or `size` be 0.
unsafe fn slice<'a, T>(data: *const T, size: usize) -> &'a [T] {
    if size == 0 {
        return &[];
    }
    std::slice::from_raw_parts(data, size)
}

/// Runs `work`; an error or a panic becomes a line of text in `error`.
unsafe fn guard(error: *mut Buffer, work: impl FnOnce() -> Result<(), String>) -> c_int {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| std::panic::set_hook(Box::new(|_| {})));
    let message = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => return 0,
        Ok(Err(message)) => message,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
            format!("the text library met a fault: {text}")
        }
    };
    *error = one_short_line(&message).into_bytes().into();
    1
}

/// Messages may quote a file; nobody wants to read all of it.
fn one_short_line(message: &str) -> String {
    let mut line: String = message.chars().take(400).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if line.len() < message.len() {
        line += "...";
    }
    line
}

/// Negative: none. So is -1 written as an unsigned number, which some converters write.
fn id(value: i64) -> Option<u32> {
    u32::try_from(value).ok().filter(|id| *id != u32::MAX)
}

fn flag(value: i32) -> Option<bool> {
    (value >= 0).then_some(value != 0)
}

fn number(id: Option<u32>) -> i64 {
    id.map_or(-1, i64::from)
}

unsafe fn texts<'a>(data: *const Bytes, count: usize, key: &str) -> Result<Vec<&'a str>, String> {
    let text = |(i, bytes): (usize, &Bytes)| {
        std::str::from_utf8(bytes.get()).map_err(|_| format!("tokenizer.ggml.{key}: entry {i} is not valid UTF-8"))
    };
    slice(data, count).iter().enumerate().map(text).collect()
}

#[no_mangle]
pub unsafe extern "C" fn eadem_buffer_free(buffer: Buffer) {
    if !buffer.data.is_null() {
        drop(Vec::from_raw_parts(buffer.data, buffer.size, buffer.capacity));
    }
}

#[no_mangle]
pub unsafe extern "C" fn eadem_ids_free(ids: Ids) {
    if !ids.data.is_null() {
        drop(Vec::from_raw_parts(ids.data, ids.size, ids.capacity));
    }
}

#[no_mangle]
pub unsafe extern "C" fn eadem_tokenizer_new_json(
    json: Bytes,
    config: Bytes,
    out: *mut *mut Tokenizer,
    error: *mut Buffer,
) -> c_int {
    guard(error, || {
        *out = Box::into_raw(Box::new(Tokenizer::from_json(json.get(), config.get())?));
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn eadem_tokenizer_new_gguf(
    vocab: *const GgufVocab,
    out: *mut *mut Tokenizer,
    error: *mut Buffer,
) -> c_int {
    guard(error, || {
        let vocab = &*vocab;
        let vocab = Vocab {
            model: std::str::from_utf8(vocab.model.get()).unwrap_or("(not UTF-8)"),
            pre: std::str::from_utf8(vocab.pre.get()).unwrap_or("(not UTF-8)"),
            tokens: texts(vocab.tokens, vocab.token_count, "tokens")?,
            scores: slice(vocab.scores, vocab.score_count),
            token_types: slice(vocab.token_types, vocab.token_type_count),
            merges: texts(vocab.merges, vocab.merge_count, "merges")?,
            bos: id(vocab.bos_id),
            eos: id(vocab.eos_id),
            unknown: id(vocab.unknown_id),
            pad: id(vocab.pad_id),
            add_bos: flag(vocab.add_bos),
            add_eos: flag(vocab.add_eos),
            add_space_prefix: flag(vocab.add_space_prefix),
        };
        *out = Box::into_raw(Box::new(from_gguf(&vocab)?));
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn eadem_tokenizer_free(tokenizer: *mut Tokenizer) {
    if !tokenizer.is_null() {
        drop(Box::from_raw(tokenizer));
    }
}

#[no_mangle]
pub unsafe extern "C" fn eadem_tokenizer_encode(
    tokenizer: *const Tokenizer,
    text: Bytes,
    add_special: c_int,
    parse_special: c_int,
    out: *mut Ids,
    error: *mut Buffer,
) -> c_int {
    guard(error, || {
        *out = (*tokenizer).encode(text.get(), add_special != 0, parse_special != 0)?.into();
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn eadem_tokenizer_decode(
    tokenizer: *const Tokenizer,
    ids: *const u32,
    count: usize,
    skip_special: c_int,
    continuation: c_int,
    out: *mut Buffer,
    error: *mut Buffer,
) -> c_int {
    guard(error, || {
        let text = (*tokenizer).decode(slice(ids, count), skip_special != 0, continuation != 0);
        *out = text.into_bytes().into();
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn eadem_tokenizer_size(tokenizer: *const Tokenizer) -> usize {
    (*tokenizer).size()
}

#[no_mangle]
pub unsafe extern "C" fn eadem_tokenizer_special_id(tokenizer: *const Tokenizer, role: c_int) -> i64 {
    let special = (*tokenizer).special();
    number(match role {
        0 => special.bos,
        1 => special.eos,
        2 => special.unknown,
        _ => special.pad,
    })
}

#[no_mangle]
pub unsafe extern "C" fn eadem_tokenizer_end_ids(tokenizer: *const Tokenizer, count: *mut usize) -> *const u32 {
    let ends = &(*tokenizer).special().ends;
    *count = ends.len();
    ends.as_ptr()
}

#[no_mangle]
pub unsafe extern "C" fn eadem_tokenizer_id(tokenizer: *const Tokenizer, text: Bytes) -> i64 {
    number(std::str::from_utf8(text.get()).ok().and_then(|text| (*tokenizer).token_id(text)))
}

#[no_mangle]
pub unsafe extern "C" fn eadem_tokenizer_is_special(tokenizer: *const Tokenizer, id: u32) -> c_int {
    (*tokenizer).decoder().is_special(id).into()
}

#[no_mangle]
pub unsafe extern "C" fn eadem_tokenizer_token_text(tokenizer: *const Tokenizer, id: u32) -> Bytes {
    Bytes::of((*tokenizer).token_text(id).unwrap_or("").as_bytes())
}

#[no_mangle]
pub unsafe extern "C" fn eadem_tokenizer_token_bytes(tokenizer: *const Tokenizer, id: u32) -> Bytes {
    Bytes::of((*tokenizer).decoder().token_bytes(id))
}

#[no_mangle]
pub unsafe extern "C" fn eadem_stream_new(
    tokenizer: *const Tokenizer,
    skip_special: c_int,
    continuation: c_int,
) -> *mut Stream {
    if tokenizer.is_null() {
        return std::ptr::null_mut();
    }
    let state = (*tokenizer).decoder().start(continuation != 0);
    let stream = Stream { tokenizer, state, skip_special: skip_special != 0, continuation: continuation != 0 };
    Box::into_raw(Box::new(stream))
}

#[no_mangle]
pub unsafe extern "C" fn eadem_stream_free(stream: *mut Stream) {
    if !stream.is_null() {
        drop(Box::from_raw(stream));
    }
}

#[no_mangle]
pub unsafe extern "C" fn eadem_stream_push(
    stream: *mut Stream,
    id: u32,
    out: *mut Buffer,
    error: *mut Buffer,
) -> c_int {
    guard(error, || {
        let stream = &mut *stream;
        let mut text = String::new();
        (*stream.tokenizer).push(&mut stream.state, id, stream.skip_special, &mut text);
        *out = text.into_bytes().into();
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn eadem_stream_finish(stream: *mut Stream, out: *mut Buffer, error: *mut Buffer) -> c_int {
    guard(error, || {
        let stream = &mut *stream;
        let decoder = (*stream.tokenizer).decoder();
        let mut text = String::new();
        decoder.finish(&mut stream.state, &mut text);
        stream.state = decoder.start(stream.continuation);
        *out = text.into_bytes().into();
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn eadem_template_new(source: Bytes, out: *mut *mut Template, error: *mut Buffer) -> c_int {
    guard(error, || {
        *out = Box::into_raw(Box::new(Template::new(source.get())?));
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn eadem_template_free(template: *mut Template) {
    if !template.is_null() {
        drop(Box::from_raw(template));
    }
}

#[no_mangle]
pub unsafe extern "C" fn eadem_template_render(
    template: *const Template,
    variables: Bytes,
    overrides: Bytes,
    fuel: u64,
    now: i64,
    out: *mut Buffer,
    error: *mut Buffer,
) -> c_int {
    guard(error, || {
        let limits = Limits { fuel, now: (now != i64::MIN).then_some(now) };
        *out = (*template).render(variables.get(), overrides.get(), limits)?.into_bytes().into();
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn eadem_config_template(
    config: Bytes,
    name: Bytes,
    found: *mut c_int,
    out: *mut Buffer,
    error: *mut Buffer,
) -> c_int {
    guard(error, || {
        let name = String::from_utf8_lossy(name.get());
        let config = parse_config(config)?;
        let entry = &config["chat_template"];
        let text = match entry.as_array() {
            Some(entries) => entries
                .iter()
                .find(|entry| entry["name"].as_str() == Some(&name))
                .and_then(|entry| entry["template"].as_str()),
            None => entry.as_str().filter(|_| name == "default"),
        };
        put_found(text, found, out);
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn eadem_config_token(
    config: Bytes,
    field: Bytes,
    found: *mut c_int,
    out: *mut Buffer,
    error: *mut Buffer,
) -> c_int {
    guard(error, || {
        let config = parse_config(config)?;
        put_found(config_token(&config, &String::from_utf8_lossy(field.get())), found, out);
        Ok(())
    })
}

unsafe fn parse_config(config: Bytes) -> Result<serde_json::Value, String> {
    serde_json::from_slice(config.get()).map_err(|error| format!("tokenizer_config.json: not valid JSON: {error}"))
}

unsafe fn put_found(text: Option<&str>, found: *mut c_int, out: *mut Buffer) {
    *found = text.is_some().into();
    *out = text.unwrap_or("").as_bytes().to_vec().into();
}

#[no_mangle]
pub unsafe extern "C" fn eadem_guide_factory_new(
    tokenizer: *const Tokenizer,
    ends: *const u32,
    end_count: usize,
    out: *mut *mut GuideFactory,
    error: *mut Buffer,
) -> c_int {
    guard(error, || {
        *out = Box::into_raw(Box::new(GuideFactory::new(&*tokenizer, slice(ends, end_count))?));
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn eadem_guide_factory_free(factory: *mut GuideFactory) {
    if !factory.is_null() {
        drop(Box::from_raw(factory));
    }
}

#[no_mangle]
pub unsafe extern "C" fn eadem_guide_new(
    factory: *const GuideFactory,
    kind: c_int,
    text: Bytes,
    out: *mut *mut Guide,
    error: *mut Buffer,
) -> c_int {
    guard(error, || {
        let kind = match kind {
            0 => Kind::JsonSchema,
            1 => Kind::Regex,
            _ => Kind::Lark,
        };
        *out = Box::into_raw(Box::new((*factory).guide(kind, text.get())?));
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn eadem_guide_free(guide: *mut Guide) {
    if !guide.is_null() {
        drop(Box::from_raw(guide));
    }
}

#[no_mangle]
pub unsafe extern "C" fn eadem_guide_fork(guide: *const Guide, out: *mut *mut Guide, error: *mut Buffer) -> c_int {
    guard(error, || {
        *out = Box::into_raw(Box::new((*guide).fork()));
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn eadem_guide_mask(
    guide: *mut Guide,
    words: *mut u32,
    count: usize,
    error: *mut Buffer,
) -> c_int {
    guard(error, || (*guide).mask(std::slice::from_raw_parts_mut(words, count)))
}

#[no_mangle]
pub unsafe extern "C" fn eadem_guide_accept(guide: *mut Guide, token: u32, error: *mut Buffer) -> c_int {
    guard(error, || (*guide).accept(token))
}

#[no_mangle]
pub unsafe extern "C" fn eadem_guide_finished(guide: *const Guide) -> c_int {
    (*guide).finished().into()
}

#[no_mangle]
pub unsafe extern "C" fn eadem_guide_rollback(guide: *mut Guide, count: usize, error: *mut Buffer) -> c_int {
    guard(error, || (*guide).rollback(count))
}

#[no_mangle]
pub extern "C" fn eadem_blake3_new() -> *mut blake3::Hasher {
    Box::into_raw(Box::new(blake3::Hasher::new()))
}

#[no_mangle]
pub unsafe extern "C" fn eadem_blake3_free(hasher: *mut blake3::Hasher) {
    if !hasher.is_null() {
        drop(Box::from_raw(hasher));
    }
}

#[no_mangle]
pub unsafe extern "C" fn eadem_blake3_update(hasher: *mut blake3::Hasher, bytes: Bytes) {
    (*hasher).update(bytes.get());
}

#[no_mangle]
pub unsafe extern "C" fn eadem_blake3_digest(hasher: *const blake3::Hasher, out: *mut u8) {
    std::ptr::copy_nonoverlapping((*hasher).finalize().as_bytes().as_ptr(), out, 32);
}

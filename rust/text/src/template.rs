//! Chat templates, rendered as the `transformers` library renders them with Jinja2: trimmed and stripped blocks, loop
//! controls, Python's string methods, its own `tojson`, `raise_exception` and `strftime_now`.

use crate::memory::on_bounded_thread;
use crate::methods;
use crate::python::{to_json, to_str, JsonStyle};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Rest, Serde, ValueKind};
use minijinja::{Environment, Error, ErrorKind, Output, State, Value};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

const NAME: &str = "chat_template";

/// Beyond these a template is refused: parsing takes stack with the depth of an expression and time with its square.
const MAX_SOURCE: usize = 512 << 10;
/// Bytes of one `{{ }}` or `{% %}`, strings not counted; the longest in use have a few hundred.
const MAX_TAG: usize = 4 << 10;

/// Address space, not memory: only what is touched is taken.
const STACK: usize = 512 << 20;

pub struct Template {
    parsed: Arc<Parsed>,
}

struct Parsed {
    /// Holds the parsed template, which borrows from `_source`; dropped before it.
    environment: Environment<'static>,
    _source: Box<str>,
    /// A render took more memory than it may: it is not tried again.
    exceeded: AtomicBool,
}

/// What a render may hold besides 64 bytes for each unit of fuel.
const MEMORY: usize = 64 << 20;

const TOO_MUCH_MEMORY: &str = "chat template: it takes too much memory; does it double a list?";

/// What a render may use besides its variables.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Budget for instructions and bytes (about one for each instruction, and for each 64 bytes). It bounds memory too:
    /// minijinja 3.1 does not meter `+` of two lists, so that a template could double one without end.
    pub fuel: u64,
    /// The time that `strftime_now` sees, seconds since 1970 in UTC; `None`: the clock, in local time.
    pub now: Option<i64>,
}

impl Template {
    pub fn new(source: &[u8]) -> Result<Template, String> {
        let source = std::str::from_utf8(source).map_err(|error| format!("chat template: not valid UTF-8: {error}"))?;
        check_size(source)?;
        let source = strip_generation_tags(source).into_boxed_str();
        // SAFETY: the text of a box stays where it is when the box moves, it is never changed, and the environment,
        // private here, goes before it.
        let borrowed: &'static str = unsafe { &*std::ptr::from_ref::<str>(&source) };
        let mut environment = environment()?;
        environment.add_template(NAME, borrowed).map_err(|error| describe(&error))?;
        Ok(Template { parsed: Arc::new(Parsed { environment, _source: source, exceeded: false.into() }) })
    }

    /// Renders with the variables of a JSON object, overridden by those of a second one (empty: none).
    pub fn render(&self, variables: &[u8], overrides: &[u8], limits: Limits) -> Result<String, String> {
        let mut context = object("variables", variables)?;
        if !overrides.is_empty() {
            context.extend(object("chat_template_kwargs", overrides)?);
        }
        if self.parsed.exceeded.load(Ordering::Relaxed) {
            return Err(TOO_MUCH_MEMORY.into());
        }
        // A thread that stands still needs what it borrows for ever.
        let parsed = self.parsed.clone();
        let mut environment = parsed.environment.clone();
        environment.set_fuel(Some(limits.fuel));
        environment.add_function("strftime_now", move |format: String| strftime(&format, limits.now));
        let memory = MEMORY + 64 * usize::try_from(limits.fuel).unwrap_or(usize::MAX).min(1 << 32);
        let rendered = on_bounded_thread(STACK, memory, move || {
            let (_parsed, environment) = (parsed, environment);
            let template = environment.get_template(NAME).map_err(|error| describe(&error))?;
            template.render(Serde(&context)).map_err(|error| describe(&error))
        });
        rendered.unwrap_or_else(|| {
            self.parsed.exceeded.store(true, Ordering::Relaxed);
            Err(TOO_MUCH_MEMORY.into())
        })
    }
}

/// Runs on a thread of its own: a template may nest values as deep as its fuel lasts, and releasing them recurses.
pub(crate) fn on_large_stack<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work);
        match thread.expect("a thread can be started").join() {
            Ok(value) => value,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Refuses what would take the parser too much stack or time.
fn check_size(source: &str) -> Result<(), String> {
    if source.len() > MAX_SOURCE {
        return Err(format!("chat template: it has {} bytes; at most {MAX_SOURCE} are supported", source.len()));
    }
    let bytes = source.as_bytes();
    let mut at = 0;
    while let Some(found) = source[at..].find(['{']) {
        let start = at + found;
        at = match &bytes[start..bytes.len().min(start + 2)] {
            b"{#" => source[start..].find("#}").map_or(bytes.len(), |end| start + end),
            b"{{" | b"{%" => end_of_tag(bytes, start)?,
            _ => start + 1,
        };
    }
    Ok(())
}

/// Where the tag that starts here ends, by the rules of the lexer: brackets balanced, strings skipped.
fn end_of_tag(bytes: &[u8], start: usize) -> Result<usize, String> {
    let close = if bytes[start + 1] == b'{' { b"}}" } else { b"%}" };
    let (mut at, mut size, mut depth) = (start + 2, 0, 0i64);
    let mut quote = None;
    while at < bytes.len() {
        match (quote, bytes[at]) {
            (Some(_), b'\\') => at += 1,
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, c @ (b'"' | b'\'')) => quote = Some(c),
            (None, c) => {
                if depth <= 0 && bytes[at..].starts_with(close) {
                    break;
                }
                depth += i64::from(matches!(c, b'(' | b'[' | b'{')) - i64::from(matches!(c, b')' | b']' | b'}'));
                size += 1;
            }
        }
        if size > MAX_TAG {
            let line = bytes[..start].iter().filter(|c| **c == b'\n').count() + 1;
            return Err(format!("chat template, line {line}: an expression of more than {MAX_TAG} bytes"));
        }
        at += 1;
    }
    Ok(at.min(bytes.len()))
}

fn object(name: &str, json: &[u8]) -> Result<serde_json::Map<String, serde_json::Value>, String> {
    match serde_json::from_slice(json) {
        Ok(serde_json::Value::Object(object)) => Ok(object),
        Ok(_) => Err(format!("{name}: expected a JSON object")),
        Err(error) => Err(format!("{name}: not valid JSON: {error}")),
    }
}

fn environment() -> Result<Environment<'static>, String> {
    let mut environment = Environment::new();
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    environment.set_syntax(syntax.map_err(|error| error.to_string())?);
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    environment.set_formatter(write_value);
    environment.set_unknown_method_callback(methods::call);
    environment.add_filter("tojson", tojson);
    environment.add_filter("string", |state: &State, value: Value| to_str(state, &value));
    environment.add_filter("truncate", truncate);
    // Jinja2: what has an iterator, so an undefined value but not none.
    environment.add_test("iterable", |value: Value| {
        value.is_undefined() || (!value.is_none() && value.try_iter().is_ok()) || value.as_str().is_some()
    });
    // Python: what has a length and items by key; minijinja leaves strings and maps out.
    environment.add_test("sequence", |value: Value| {
        matches!(value.kind(), ValueKind::Seq | ValueKind::Map | ValueKind::String | ValueKind::Undefined)
    });
    environment.add_function("raise_exception", |message: String| -> Result<Value, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, message))
    });
    Ok(environment)
}

fn write_value(out: &mut Output, state: &mut State, value: &Value) -> Result<(), Error> {
    match value.kind() {
        ValueKind::Number | ValueKind::Seq | ValueKind::Map => {
            out.write_str(&to_str(state, value)?).map_err(Error::from)
        }
        _ => minijinja::escape_formatter(out, state, value),
    }
}

/// `tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False)`.
fn tojson(state: &State, value: Value, positional: Rest<Value>, kwargs: Kwargs) -> Result<Value, Error> {
    let options = arguments(["ensure_ascii", "indent", "separators", "sort_keys"], &positional, kwargs)?;
    let mut style = JsonStyle { ensure_ascii: options[0].is_true(), ..JsonStyle::default() };
    if !options[1].is_none() {
        style.indent = Some(indentation(&options[1])?);
        style.item_separator = ",".into();
    }
    if !options[2].is_none() {
        let pair: Vec<Value> = options[2].try_iter()?.collect();
        let [item, key] = &pair[..] else {
            return Err(Error::new(ErrorKind::InvalidOperation, "tojson: separators must be a pair of strings"));
        };
        style.item_separator = item.to_string();
        style.key_separator = key.to_string();
    }
    style.sort_keys = options[3].is_true();
    Ok(Value::from(to_json(state, &value, &style)?))
}

fn indentation(value: &Value) -> Result<String, Error> {
    if let Some(text) = value.as_str() {
        return Ok(text.into());
    }
    let width = if value.kind() == ValueKind::Bool { Some(value.is_true() as i64) } else { value.as_i64() };
    match width {
        Some(width) if width <= 64 => Ok(" ".repeat(width.max(0) as usize)),
        _ => Err(Error::new(ErrorKind::InvalidOperation, "tojson: indent must be a number up to 64 or a string")),
    }
}

/// Jinja2's `truncate(value, length=255, killwords=False, end='...', leeway=5)`; lengths in characters.
fn truncate(value: String, positional: Rest<Value>, kwargs: Kwargs) -> Result<String, Error> {
    let names = ["length", "killwords", "end", "leeway"];
    let [length, killwords, end, leeway] = arguments(names, &positional, kwargs)?;
    let number =
        |value: &Value, absent: usize| if value.is_none() { Ok(absent) } else { usize::try_from(value.clone()) };
    let (length, leeway) = (number(&length, 255)?, number(&leeway, 5)?);
    let end = end.as_str().unwrap_or("...");
    if value.chars().count() <= length.saturating_add(leeway) {
        return Ok(value);
    }
    let Some(kept) = length.checked_sub(end.chars().count()) else {
        return Err(Error::new(ErrorKind::InvalidOperation, "truncate: the length is below that of the ending"));
    };
    let mut head: String = value.chars().take(kept).collect();
    if let (false, Some(space)) = (killwords.is_true(), head.rfind(' ')) {
        head.truncate(space);
    }
    Ok(head + end)
}

/// Arguments given by position or by name; absent ones are none.
fn arguments<const N: usize>(
    names: [&'static str; N],
    positional: &[Value],
    kwargs: Kwargs,
) -> Result<[Value; N], Error> {
    let mut values = [const { Value::UNDEFINED }; N];
    for (i, name) in names.iter().enumerate() {
        values[i] = match positional.get(i) {
            Some(value) => value.clone(),
            None => kwargs.get::<Option<Value>>(name)?.unwrap_or(Value::from(())),
        };
    }
    kwargs.assert_all_used()?;
    Ok(values)
}

fn strftime(format: &str, now: Option<i64>) -> Result<String, Error> {
    let bad = |error: jiff::Error| Error::new(ErrorKind::InvalidOperation, format!("strftime_now: {error}"));
    let time = match now {
        Some(seconds) => jiff::Timestamp::from_second(seconds).map_err(bad)?.to_zoned_datetime(jiff::tz::TimeZone::UTC),
        None => jiff::ZonedDateTime::now(),
    };
    jiff::fmt::strtime::format(format, &time).map_err(bad)
}

/// One line: where, and what.
fn describe(error: &Error) -> String {
    let mut message = String::from("chat template");
    if let Some(line) = error.line() {
        message += &format!(", line {line}");
    }
    message += ": ";
    match (error.kind(), error.detail()) {
        (ErrorKind::OutOfFuel, _) => message += "it runs too long or makes too much text; is there an endless loop?",
        (ErrorKind::InvalidOperation, Some(detail)) => message += detail,
        (kind, Some(detail)) => message += &format!("{kind}: {detail}"),
        (kind, None) => message += &kind.to_string(),
    }
    message.replace('\n', " ")
}

/// `{% generation %}` marks what assistants say, for training; for rendering it is a scope and nothing else.
fn strip_generation_tags(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find("{%") {
        let Some(size) = rest[start + 2..].find("%}") else { break };
        let (tag, after) = rest[start..].split_at(size + 2);
        let inner = &tag[2..];
        let word = inner.trim_matches(|c: char| c == '-' || c == '+' || c.is_whitespace());
        out.push_str(&rest[..start]);
        match word {
            "generation" => out.push_str(&format!("{{%{}", inner.replace(word, "with"))),
            "endgeneration" => out.push_str(&format!("{{%{}", inner.replace(word, "endwith"))),
            _ => out.push_str(tag),
        }
        rest = after;
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { fuel: 1_000_000, now: Some(0) };

    fn render(source: &str, variables: &str) -> Result<String, String> {
        Template::new(source.as_bytes())?.render(variables.as_bytes(), b"", LIMITS)
    }

    #[test]
    fn python_ways() {
        assert_eq!(
            render("{{ x|tojson }}", r#"{"x": {"b": [1, 1e-7, "é\"\n"], "a": null}}"#).unwrap(),
            "{\"b\": [1, 1e-07, \"é\\\"\\n\"], \"a\": null}"
        );
        assert_eq!(
            render("{{ x }} {{ true }} {{ none }}", r#"{"x": {"b": [1.0, "it's", true]}}"#).unwrap(),
            "{'b': [1.0, \"it's\", True]} True None"
        );
        assert_eq!(render("{{ strftime_now('%d %b %Y') }}", "{}").unwrap(), "01 Jan 1970");
        assert_eq!(render("a{%- generation -%} b {%- endgeneration %}c", "{}").unwrap(), "abc");
    }

    #[test]
    fn exceptions_carry_the_message() {
        let error = render("\n{{ raise_exception('roles must alternate') }}", "{}").unwrap_err();
        assert_eq!(error, "chat template, line 2: roles must alternate");
    }

    #[test]
    fn runaway_templates_end() {
        let loops = "{% for a in range(99999) %}{% for b in range(99999) %}x{% endfor %}{% endfor %}";
        assert!(render(loops, "{}").unwrap_err().contains("endless loop"));
        let laughs = "{% set ns = namespace(x=['ha']) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}\
                      {% endfor %}{{ ns.x|tojson }}";
        assert!(render(laughs, "{}").unwrap_err().contains("endless loop"));
        let printed = laughs.replace("|tojson", "");
        assert!(render(&printed, "{}").unwrap_err().contains("endless loop"));
        assert!(render("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "{}").is_err());
    }

    #[test]
    fn lists_that_double_end() {
        let doubling = "{% set ns = namespace(x=['ha']) %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}\
                        {% endfor %}{{ ns.x|length }}";
        let template = Template::new(doubling.as_bytes()).unwrap();
        for _ in 0..2 {
            let error = template.render(b"{}", b"", LIMITS).unwrap_err();
            assert!(error.contains("too much memory"), "{error}");
        }
        let harmless = doubling.replace("60", "10");
        assert_eq!(render(&harmless, "{}").unwrap(), "1024");
    }
}

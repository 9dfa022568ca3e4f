//! Values as Python writes them: `json.dumps` and `str`/`repr`. Written here since chat templates are written against
//! Python, whose separators, floats and quotes differ from Rust's.

use minijinja::value::{Tuple, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};
use std::fmt::Write;

/// Nesting beyond this is refused rather than risking the stack.
const MAX_DEPTH: usize = 200;
/// Bytes written between two charges of the render's fuel.
const CHARGED_BYTES: usize = 1024;

/// The options of `json.dumps` that templates use.
#[derive(Clone, Debug)]
pub struct JsonStyle {
    pub ensure_ascii: bool,
    pub indent: Option<String>,
    pub item_separator: String,
    pub key_separator: String,
    pub sort_keys: bool,
}

impl Default for JsonStyle {
    fn default() -> Self {
        JsonStyle {
            ensure_ascii: false,
            indent: None,
            item_separator: ", ".into(),
            key_separator: ": ".into(),
            sort_keys: false,
        }
    }
}

/// Python's `repr` of a float: the shortest digits that read back the same, an exponent below 1e-4 and from 1e16 on.
pub fn float_repr(value: f64) -> String {
    if value.is_nan() {
        return "nan".into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf".into() } else { "-inf".into() };
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').expect("LowerExp has an exponent");
    let exponent: i32 = exponent.parse().expect("LowerExp has a number there");
    if value != 0.0 && !(-4..16).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", exponent.abs());
    }
    let plain = format!("{value}");
    if plain.contains('.') {
        plain
    } else {
        plain + ".0"
    }
}

/// Text under construction; what it costs is charged to the render, so that shared structure can not explode.
struct Writer<'a> {
    out: String,
    charged: usize,
    state: &'a State<'a, 'a>,
}

impl Writer<'_> {
    fn charge(&mut self) -> Result<(), Error> {
        if self.out.len() >= self.charged + CHARGED_BYTES {
            let bytes = self.out.len() - self.charged;
            self.charged = self.out.len();
            self.state.consume_fuel((bytes / 16) as u64)?;
        }
        Ok(())
    }
}

fn too_deep() -> Error {
    Error::new(ErrorKind::InvalidOperation, format!("a value is nested more than {MAX_DEPTH} deep"))
}

/// `json.dumps(value, ...)`.
pub fn to_json(state: &State, value: &Value, style: &JsonStyle) -> Result<String, Error> {
    let mut writer = Writer { out: String::new(), charged: 0, state };
    json(&mut writer, value, style, 0)?;
    Ok(writer.out)
}

fn json(writer: &mut Writer, value: &Value, style: &JsonStyle, depth: usize) -> Result<(), Error> {
    if depth > MAX_DEPTH {
        return Err(too_deep());
    }
    writer.charge()?;
    match value.kind() {
        ValueKind::None => writer.out.push_str("null"),
        ValueKind::Bool => writer.out.push_str(if value.is_true() { "true" } else { "false" }),
        ValueKind::Number => writer.out.push_str(&json_number(value)),
        ValueKind::String => json_string(&mut writer.out, value.as_str().unwrap_or(""), style.ensure_ascii),
        ValueKind::Seq | ValueKind::Iterable => {
            json_items(writer, value.try_iter()?.collect(), style, depth, ('[', ']'), |writer, item| {
                json(writer, item, style, depth + 1)
            })?;
        }
        ValueKind::Map => {
            let mut keys: Vec<Value> = value.try_iter()?.collect();
            if style.sort_keys {
                keys.sort();
            }
            json_items(writer, keys, style, depth, ('{', '}'), |writer, key| {
                json_string(&mut writer.out, &json_key(key)?, style.ensure_ascii);
                writer.out.push_str(&style.key_separator);
                json(writer, &value.get_item(key)?, style, depth + 1)
            })?;
        }
        kind => {
            let message = format!("an {kind} value can not be written as JSON");
            return Err(Error::new(ErrorKind::InvalidOperation, message));
        }
    }
    Ok(())
}

fn json_items(
    writer: &mut Writer,
    items: Vec<Value>,
    style: &JsonStyle,
    depth: usize,
    brackets: (char, char),
    mut write: impl FnMut(&mut Writer, &Value) -> Result<(), Error>,
) -> Result<(), Error> {
    let line = |writer: &mut Writer, depth: usize| {
        if let Some(indent) = &style.indent {
            writer.out.push('\n');
            for _ in 0..depth {
                writer.out.push_str(indent);
            }
        }
    };
    writer.out.push(brackets.0);
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            writer.out.push_str(&style.item_separator);
        }
        line(writer, depth + 1);
        write(writer, item)?;
    }
    if !items.is_empty() {
        line(writer, depth);
    }
    writer.out.push(brackets.1);
    Ok(())
}

fn json_number(value: &Value) -> String {
    if value.is_integer() {
        return value.to_string();
    }
    match f64::try_from(value.clone()) {
        Ok(number) if number.is_nan() => "NaN".into(),
        Ok(number) if number.is_infinite() => {
            if number > 0.0 {
                "Infinity".into()
            } else {
                "-Infinity".into()
            }
        }
        Ok(number) => float_repr(number),
        Err(_) => value.to_string(),
    }
}

fn json_key(key: &Value) -> Result<String, Error> {
    match key.kind() {
        ValueKind::String => Ok(key.as_str().unwrap_or("").into()),
        ValueKind::None => Ok("null".into()),
        ValueKind::Bool => Ok(if key.is_true() { "true".into() } else { "false".into() }),
        ValueKind::Number => Ok(json_number(key)),
        kind => Err(Error::new(ErrorKind::InvalidOperation, format!("an {kind} key can not be written as JSON"))),
    }
}

fn json_string(out: &mut String, text: &str, ensure_ascii: bool) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if c < ' ' || (ensure_ascii && c > '~') => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// `str(value)`.
pub fn to_str(state: &State, value: &Value) -> Result<String, Error> {
    if let Some(text) = value.as_str() {
        return Ok(text.into());
    }
    if value.is_undefined() {
        return Ok(String::new());
    }
    let mut writer = Writer { out: String::new(), charged: 0, state };
    repr(&mut writer, value, 0)?;
    Ok(writer.out)
}

fn repr(writer: &mut Writer, value: &Value, depth: usize) -> Result<(), Error> {
    if depth > MAX_DEPTH {
        return Err(too_deep());
    }
    writer.charge()?;
    match value.kind() {
        ValueKind::Undefined => writer.out.push_str("Undefined"),
        ValueKind::Number if !value.is_integer() => match f64::try_from(value.clone()) {
            Ok(number) => writer.out.push_str(&float_repr(number)),
            Err(_) => writer.out.push_str(&value.to_string()),
        },
        ValueKind::String => {
            let _ = write!(writer.out, "{value:?}");
        }
        ValueKind::Seq | ValueKind::Iterable => {
            let items: Vec<Value> = value.try_iter()?.collect();
            let is_tuple = value.downcast_object_ref::<Tuple>().is_some();
            writer.out.push(if is_tuple { '(' } else { '[' });
            for (i, item) in items.iter().enumerate() {
                writer.out.push_str(if i > 0 { ", " } else { "" });
                repr(writer, item, depth + 1)?;
            }
            writer.out.push_str(match (is_tuple, items.len()) {
                (true, 1) => ",)",
                (true, _) => ")",
                (false, _) => "]",
            });
        }
        ValueKind::Map => {
            writer.out.push('{');
            for (i, key) in value.try_iter()?.enumerate() {
                writer.out.push_str(if i > 0 { ", " } else { "" });
                repr(writer, &key, depth + 1)?;
                writer.out.push_str(": ");
                repr(writer, &value.get_item(&key)?, depth + 1)?;
            }
            writer.out.push('}');
        }
        _ => writer.out.push_str(&value.to_string()),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::float_repr;

    #[test]
    fn floats_as_python_writes_them() {
        let cases = [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (1e-7, "1e-07"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.5e300, "1.5e+300"),
            (0.1 + 0.2, "0.30000000000000004"),
            (-123.456, "-123.456"),
        ];
        for (value, text) in cases {
            assert_eq!(float_repr(value), text);
        }
    }
}

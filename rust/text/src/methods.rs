//! Methods of Python's strings and lists that templates use and minijinja's compatibility layer lacks.

use minijinja::value::{Tuple, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};
use minijinja_contrib::pycompat::unknown_method_callback;

/// The callback for methods that a value itself does not have.
pub fn call(state: &mut State, value: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    if let Some(text) = value.as_str() {
        if let Some(result) = string_method(text, method, args) {
            return result;
        }
    }
    if value.kind() == ValueKind::Seq && method == "index" {
        return list_index(value, args);
    }
    unknown_method_callback(state, value, method, args)
}

fn string_method(text: &str, method: &str, args: &[Value]) -> Option<Result<Value, Error>> {
    let first = || args.first().and_then(Value::as_str);
    Some(match (method, args.len()) {
        ("removeprefix", 1) => Ok(Value::from(text.strip_prefix(first()?).unwrap_or(text))),
        ("removesuffix", 1) => Ok(Value::from(text.strip_suffix(first()?).unwrap_or(text))),
        ("index", 1) => match text.find(first()?) {
            Some(at) => Ok(Value::from(text[..at].chars().count())),
            None => Err(Error::new(ErrorKind::InvalidOperation, "substring not found")),
        },
        ("partition" | "rpartition", 1) if first()?.is_empty() => {
            Err(Error::new(ErrorKind::InvalidOperation, "empty separator"))
        }
        ("partition", 1) => Ok(triple(text.split_once(first()?), first()?, (text, "", ""))),
        ("rpartition", 1) => Ok(triple(text.rsplit_once(first()?), first()?, ("", "", text))),
        ("rsplit", 1 | 2) if !first()?.is_empty() => {
            let limit = args.get(1).and_then(Value::as_i64).filter(|limit| *limit >= 0);
            let limit = limit.map_or(usize::MAX, |limit| (limit as usize).saturating_add(1));
            let mut parts: Vec<Value> = text.rsplitn(limit, first()?).map(Value::from).collect();
            parts.reverse();
            Ok(Value::from(parts))
        }
        _ => return None,
    })
}

/// (before, separator, after) as a tuple.
fn triple(cut: Option<(&str, &str)>, separator: &str, uncut: (&str, &str, &str)) -> Value {
    let (a, b, c) = cut.map_or(uncut, |(before, after)| (before, separator, after));
    Value::from(Tuple::from(vec![Value::from(a), Value::from(b), Value::from(c)]))
}

fn list_index(list: &Value, args: &[Value]) -> Result<Value, Error> {
    let [wanted] = args else {
        return Err(Error::new(ErrorKind::InvalidOperation, "index takes one argument"));
    };
    let found = list.try_iter()?.position(|item| item == *wanted);
    found.map(Value::from).ok_or_else(|| Error::new(ErrorKind::InvalidOperation, "the value is not in the list"))
}

//! A JSON value as indented lines for people.

use serde_json::{Map, Value};

use crate::summary::number;

/// Numbers of a series that are shown.
const SHOWN: usize = 16;

/// Formats a value as lines that begin with `indent` blanks. An object of plain values takes one
/// line, a deeper one several; a figure over seeds becomes its mean with its range.
pub fn tree(value: &Value, indent: usize) -> String {
    match value {
        Value::Object(fields) if inline(value).is_none() => {
            fields.iter().map(|(name, field)| entry(name, field, indent)).collect()
        }
        Value::Array(items) if inline(value).is_none() => items.iter().map(|item| tree(item, indent)).collect(),
        _ => format!("{:indent$}{}\n", "", inline(value).unwrap_or_default()),
    }
}

fn entry(name: &str, field: &Value, indent: usize) -> String {
    match inline(field) {
        Some(text) => format!("{:indent$}{name}: {text}\n", ""),
        None => format!("{:indent$}{name}:\n{}", "", tree(field, indent + 2)),
    }
}

/// The value on one line, where it fits there: nothing in it is deeper than a figure over seeds.
fn inline(value: &Value) -> Option<String> {
    match value {
        Value::Object(fields) => spread(fields).or_else(|| {
            let parts = fields.iter().map(|(name, field)| plain(field).map(|text| format!("{name} {text}")));
            parts.collect::<Option<Vec<_>>>().map(|parts| parts.join(", "))
        }),
        Value::Array(items) => {
            let parts = items.iter().take(SHOWN).map(plain).collect::<Option<Vec<_>>>()?;
            let more = items.len().saturating_sub(SHOWN);
            Some(parts.join(" ") + &if more > 0 { format!(" and {more} more") } else { String::new() })
        }
        _ => plain(value),
    }
}

fn plain(value: &Value) -> Option<String> {
    match value {
        Value::Null => Some("-".to_string()),
        Value::Bool(yes) => Some(if *yes { "yes" } else { "no" }.to_string()),
        Value::String(text) => Some(text.clone()),
        Value::Number(whole) if whole.is_u64() || whole.is_i64() => Some(whole.to_string()),
        Value::Number(float) => float.as_f64().map(number),
        Value::Object(fields) => spread(fields),
        Value::Array(_) => None,
    }
}

/// A figure over seeds.
fn spread(fields: &Map<String, Value>) -> Option<String> {
    let at = |name: &str| fields.get(name)?.as_f64();
    if fields.len() != 4 {
        return None;
    }
    let (mean, min, max, seeds) = (at("mean")?, at("min")?, at("max")?, at("seeds")?);
    Some(if min == max {
        number(mean)
    } else {
        format!("{} ({}..{} over {seeds} seeds)", number(mean), number(min), number(max))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn plain_values_share_a_line_and_deep_ones_do_not() {
        let value = json!({
            "alpha": {"mean": 0.1, "min": 0.05, "max": 0.2, "seeds": 5},
            "counters": {"merges": 3, "share": 0.25, "none": null},
            "settings": {"one": {"gain": {"mean": 1.5, "min": 1.5, "max": 1.5, "seeds": 2}, "of": {"x": 1}}},
            "pages": (1..=18).collect::<Vec<_>>(),
        });
        let expected = "  \
alpha: 0.10 (0.0500..0.20 over 5 seeds)
  counters: merges 3, none -, share 0.25
  pages: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 and 2 more
  settings:
    one:
      gain: 1.50
      of: x 1
";
        assert_eq!(tree(&value, 2), expected);
        assert_eq!(tree(&json!("a figure"), 0), "a figure\n");
    }
}

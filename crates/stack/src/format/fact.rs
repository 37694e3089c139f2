//! Facts about an image. Each fact is a line of text and members of a JSON object, defined in one
//! place.

use serde_json::{Map, Value};

/// A fact about an image. A line may cover several JSON members: `FAT16, sectors of 512 bytes` is
/// one line and two members.
#[derive(Clone, Debug, PartialEq)]
pub struct Fact {
    /// The label of the line.
    pub label: &'static str,
    /// The text of the line; `None` for a fact that is only in JSON.
    pub text: Option<String>,
    /// The JSON members of the fact: keys and values.
    pub members: Vec<(&'static str, Value)>,
}

impl Fact {
    /// A line, and one JSON member with the same meaning.
    pub fn new(label: &'static str, text: impl Into<String>, key: &'static str, value: impl Into<Value>) -> Self {
        Self::line(label, text).and(key, value)
    }

    /// A line without a JSON member.
    pub fn line(label: &'static str, text: impl Into<String>) -> Self {
        Self { label, text: Some(text.into()), members: Vec::new() }
    }

    /// A JSON member without a line.
    pub fn member(key: &'static str, value: impl Into<Value>) -> Self {
        Self { label: "", text: None, members: vec![(key, value.into())] }
    }

    /// Adds a JSON member to the fact.
    #[must_use]
    pub fn and(mut self, key: &'static str, value: impl Into<Value>) -> Self {
        self.members.push((key, value.into()));
        self
    }
}

/// The facts as a JSON object.
pub fn json(facts: &[Fact]) -> Value {
    let members = facts.iter().flat_map(|fact| fact.members.iter().cloned());
    Value::Object(members.map(|(key, value)| (key.to_owned(), value)).collect::<Map<_, _>>())
}

/// The facts as lines: label and text.
pub fn lines(facts: &[Fact]) -> impl Iterator<Item = (&'static str, &str)> {
    facts.iter().filter_map(|fact| Some((fact.label, fact.text.as_deref()?)))
}

/// The text, or `none` if it is empty.
pub fn or_none(text: &str) -> String {
    if text.is_empty() { "none".to_owned() } else { text.to_owned() }
}

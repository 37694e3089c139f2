//! The parameter that picks one of a trace's names.

use std::fmt;

use crate::parameters::{ParameterValue, Value};

/// The one name whose operations are replayed, or all names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OnlyName(String);

impl OnlyName {
    /// Whether every name is replayed.
    pub const fn is_all(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether operations on this name are replayed. A colon stands for a comma, which separates
    /// parameters on the command line: `mds:1` is the host and disk `mds,1`.
    pub(super) fn takes(&self, name: &str) -> bool {
        let same = |(wanted, byte): (u8, u8)| wanted == byte || (wanted == b':' && byte == b',');
        self.is_all() || (self.0.len() == name.len() && self.0.bytes().zip(name.bytes()).all(same))
    }
}

impl fmt::Display for OnlyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl ParameterValue for OnlyName {
    type Limits = ();
    fn from_value(value: &Value, (): &()) -> Option<Self> {
        match value {
            // With colons the value is shown as the command line takes it.
            Value::Text(text) => Some(Self(text.trim().replace(',', ":"))),
            Value::Number(number) => Some(Self(number.to_string())),
            Value::Flag(_) | Value::Fraction(_) => None,
        }
    }
    fn to_value(&self) -> Value {
        Value::Text(self.0.clone())
    }
    fn expected((): &()) -> String {
        "a name that the trace has, such as 3 or mds:1".to_string()
    }
}

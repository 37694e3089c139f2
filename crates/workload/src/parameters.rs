//! One definition per parameter: its field, default, limits and help. Parsing, serialising and help
//! texts come from it.

use std::ops::RangeInclusive;

use nandkit_units::parse_size;
use serde::de::{Deserialize, Deserializer, Visitor};
use serde::ser::{Serialize, Serializer};

use crate::error::{Nearest, SpecError};

/// A parameter's value as a spec holds it. On the command line every value is text.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Value {
    Flag(bool),
    Number(u64),
    Fraction(f64),
    Text(String),
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Flag(value) => write!(f, "{value}"),
            Self::Number(value) => write!(f, "{value}"),
            Self::Fraction(value) => write!(f, "{value}"),
            Self::Text(value) => write!(f, "{value}"),
        }
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Flag(value) => serializer.serialize_bool(*value),
            Self::Number(value) => serializer.serialize_u64(*value),
            Self::Fraction(value) => serializer.serialize_f64(*value),
            Self::Text(value) => serializer.serialize_str(value),
        }
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AnyValue;
        impl Visitor<'_> for AnyValue {
            type Value = Value;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("true or false, a number that is not negative, or a text")
            }
            fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
                Ok(Value::Flag(value))
            }
            fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
                Ok(Value::Number(value))
            }
            fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
                // The parameter refuses a negative number, with a message that names the key and
                // its limits.
                Ok(u64::try_from(value).map_or(Value::Fraction(value as f64), Value::Number))
            }
            fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
                Ok(Value::Fraction(value))
            }
            fn visit_str<E>(self, value: &str) -> Result<Value, E> {
                Ok(Value::Text(value.to_string()))
            }
        }
        deserializer.deserialize_any(AnyValue)
    }
}

/// A type that a parameter can have.
pub trait ParameterValue: Sized {
    /// The type of the bounds of such a value.
    type Limits;
    /// Reads the value; `None` where it is of another type or outside its limits.
    fn from_value(value: &Value, limits: &Self::Limits) -> Option<Self>;
    /// The value for a spec.
    fn to_value(&self) -> Value;
    /// The values that are allowed, for help and messages.
    fn expected(limits: &Self::Limits) -> String;
    /// The names among which the parameter chooses, if it is a choice.
    fn choices() -> &'static [&'static str] {
        &[]
    }
}

impl ParameterValue for u64 {
    type Limits = RangeInclusive<u64>;
    fn from_value(value: &Value, limits: &Self::Limits) -> Option<Self> {
        let number = match value {
            Value::Number(number) => *number,
            Value::Text(text) => parse_size(text).ok()?,
            Value::Flag(_) | Value::Fraction(_) => return None,
        };
        limits.contains(&number).then_some(number)
    }
    fn to_value(&self) -> Value {
        Value::Number(*self)
    }
    fn expected(limits: &Self::Limits) -> String {
        format!("a whole number from {} to {} (K, M, G for powers of 1024)", limits.start(), limits.end())
    }
}

impl ParameterValue for f64 {
    type Limits = RangeInclusive<f64>;
    fn from_value(value: &Value, limits: &Self::Limits) -> Option<Self> {
        let number = match value {
            Value::Number(number) => *number as f64,
            Value::Fraction(number) => *number,
            Value::Text(text) => match text.trim().strip_suffix('%') {
                Some(percent) => percent.trim().parse::<f64>().ok()? / 100.0,
                None => text.trim().parse().ok()?,
            },
            Value::Flag(_) => return None,
        };
        limits.contains(&number).then_some(number)
    }
    fn to_value(&self) -> Value {
        Value::Fraction(*self)
    }
    fn expected(limits: &Self::Limits) -> String {
        format!("a number from {} to {} (or with % of 1)", limits.start(), limits.end())
    }
}

impl ParameterValue for bool {
    type Limits = ();
    fn from_value(value: &Value, (): &()) -> Option<Self> {
        match value {
            Value::Flag(flag) => Some(*flag),
            Value::Text(text) => match text.trim().to_ascii_lowercase().as_str() {
                "true" | "yes" | "on" => Some(true),
                "false" | "no" | "off" => Some(false),
                _ => None,
            },
            Value::Number(_) | Value::Fraction(_) => None,
        }
    }
    fn to_value(&self) -> Value {
        Value::Flag(*self)
    }
    fn expected((): &()) -> String {
        "true or false".to_string()
    }
}

impl ParameterValue for String {
    /// What it names, for messages.
    type Limits = &'static str;
    fn from_value(value: &Value, _: &&'static str) -> Option<Self> {
        match value {
            Value::Text(text) if !text.is_empty() => Some(text.clone()),
            _ => None,
        }
    }
    fn to_value(&self) -> Value {
        Value::Text(self.clone())
    }
    fn expected(named: &&'static str) -> String {
        (*named).to_string()
    }
}

/// A parameter, for help texts.
#[derive(Clone, Debug, PartialEq)]
pub struct ParameterDescription {
    /// The key.
    pub name: &'static str,
    /// The meaning of the parameter, and where its default comes from.
    pub help: String,
    /// The values that are allowed.
    pub expected: String,
    /// The value where none is given; an empty text where one must be given.
    pub default: Value,
}

/// A workload's parameters.
pub trait Parameters: Default {
    /// The workload's name, as specs have it.
    const WORKLOAD: &'static str;
    /// All keys in the order of help texts.
    const KEYS: &'static [&'static str];
    /// Sets one parameter.
    fn set(&mut self, key: &str, value: &Value) -> Result<(), SpecError>;
    /// All parameters with their values.
    fn values(&self) -> Vec<(&'static str, Value)>;
    /// All parameters for help texts.
    fn describe() -> Vec<ParameterDescription>;
}

/// Sets a field from a value. Errors: the value is not allowed; the message says which are.
pub(crate) fn assign<T: ParameterValue>(
    field: &mut T,
    limits: &T::Limits,
    value: &Value,
    workload: &'static str,
    key: &'static str,
) -> Result<(), SpecError> {
    *field = T::from_value(value, limits).ok_or_else(|| {
        let nearest = Nearest::of(&value.to_string(), T::choices());
        let expected = format!("{}{nearest}", T::expected(limits));
        SpecError::BadValue { workload, key, value: value.to_string(), expected }
    })?;
    Ok(())
}

pub(crate) fn unknown_key(workload: &'static str, keys: &'static [&'static str], key: &str) -> SpecError {
    let known = if keys.is_empty() { "none".to_string() } else { keys.join(", ") };
    SpecError::UnknownParameter { workload, key: key.to_string(), nearest: Nearest::of(key, keys), known }
}

/// Defines a workload's parameters: `name: Type = default, limits;` with a doc comment that is the
/// help text too.
macro_rules! parameters {
    (
        $(#[$meta:meta])*
        pub struct $name:ident as $workload:literal {
            $($(#[doc = $help:literal])+ $field:ident: $type:ty = $default:expr, $limits:expr;)+
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $($(#[doc = $help])+ pub $field: $type,)+
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default,)+ }
            }
        }

        impl $crate::parameters::Parameters for $name {
            const WORKLOAD: &'static str = $workload;
            const KEYS: &'static [&'static str] = &[$(stringify!($field)),+];

            fn set(
                &mut self,
                key: &str,
                value: &$crate::parameters::Value,
            ) -> std::result::Result<(), $crate::error::SpecError> {
                match key {
                    $(stringify!($field) => {
                        $crate::parameters::assign(&mut self.$field, &$limits, value, $workload, stringify!($field))
                    })+
                    _ => Err($crate::parameters::unknown_key($workload, Self::KEYS, key)),
                }
            }

            fn values(&self) -> Vec<(&'static str, $crate::parameters::Value)> {
                use $crate::parameters::ParameterValue as _;
                vec![$((stringify!($field), self.$field.to_value())),+]
            }

            fn describe() -> Vec<$crate::parameters::ParameterDescription> {
                use $crate::parameters::ParameterValue as _;
                let default = Self::default();
                vec![$($crate::parameters::ParameterDescription {
                    name: stringify!($field),
                    help: [$($help.trim()),+].join(" "),
                    expected: <$type>::expected(&$limits),
                    default: default.$field.to_value(),
                }),+]
            }
        }
    };
}
pub(crate) use parameters;

/// Defines an enum whose values specs name.
macro_rules! choices {
    (
        $(#[$meta:meta])*
        pub enum $name:ident {
            $($(#[doc = $help:literal])+ $variant:ident = $text:literal,)+
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[doc = $help])+ $variant,)+
        }

        impl $crate::parameters::ParameterValue for $name {
            type Limits = ();
            fn from_value(value: &$crate::parameters::Value, (): &()) -> Option<Self> {
                match value {
                    $crate::parameters::Value::Text(text) => match text.trim().to_ascii_lowercase().as_str() {
                        $($text => Some(Self::$variant),)+
                        _ => None,
                    },
                    _ => None,
                }
            }
            fn to_value(&self) -> $crate::parameters::Value {
                $crate::parameters::Value::Text(match self { $(Self::$variant => $text),+ }.to_string())
            }
            fn expected((): &()) -> String {
                format!("one of {}", [$($text),+].join(", "))
            }
            fn choices() -> &'static [&'static str] {
                &[$($text),+]
            }
        }
    };
}
pub(crate) use choices;

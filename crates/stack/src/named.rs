//! Values that a spec may give as a name or as a table: `ftl = "fast"` means `ftl = { kind = "fast"
//! }`.

use crate::SpecError;
use nandkit_cleaning::victim;
use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, Error};
use toml::{Table, Value};

/// Reads a table, or a name, which becomes the value of `naming_key`.
pub(crate) fn table_or_name<'de, D: Deserializer<'de>>(deserializer: D, naming_key: &str) -> Result<Table, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::String(name) => Ok(Table::from_iter([(naming_key.to_string(), Value::String(name))])),
        Value::Table(table) => Ok(table),
        other => Err(D::Error::custom(format!("found {other}, expected a name or a table with the key {naming_key}"))),
    }
}

/// Takes `key` out of a table.
pub(crate) fn take<T: DeserializeOwned>(table: &mut Table, key: &str) -> Result<Option<T>, SpecError> {
    let Some(value) = table.remove(key) else { return Ok(None) };
    let shown = value.to_string();
    let read = value.try_into().map_err(|error: toml::de::Error| {
        SpecError::form(format!("{key} is {shown}: {}", crate::suggest::explain(error.message())))
    })?;
    Ok(Some(read))
}

/// Reads a whole table. The error names the key whose value does not fit, which serde's own message
/// does not.
pub(crate) fn whole<T: DeserializeOwned>(table: Table) -> Result<T, SpecError> {
    let told = |error: toml::de::Error| crate::suggest::explain(error.message());
    let error = match table.clone().try_into::<T>() {
        Ok(read) => return Ok(read),
        Err(error) => error,
    };
    for (key, value) in table {
        let shown = value.to_string();
        if !value.is_table()
            && let Err(error) = Table::from_iter([(key.clone(), value)]).try_into::<T>()
            && !error.message().starts_with("unknown field")
            && !error.message().starts_with("missing field")
        {
            return Err(SpecError::form(format!("{key} is {shown}: {}", told(error))));
        }
    }
    Err(SpecError::form(told(error)))
}

/// Reads the name of a victim policy with its options; old names become current ones.
pub(crate) fn victim<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    String::deserialize(deserializer).map(|name| current_victim(&name))
}

/// A victim policy with its options under its current name.
pub(crate) fn current_victim(policy: &str) -> String {
    let (name, options) = policy.split_at(policy.find(':').unwrap_or(policy.len()));
    format!("{}{options}", victim::current_name(name))
}

/// Reads a number of bytes, or a text such as "64M".
pub(crate) fn size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let bytes = match Value::deserialize(deserializer)? {
        Value::Integer(bytes) => {
            u64::try_from(bytes).map_err(|_| SpecError::range(format!("found {bytes}, expected bytes")))
        }
        Value::String(text) => nandkit_units::parse_size(&text).map_err(SpecError::form),
        other => Err(SpecError::form(format!("found {other}, expected a number of bytes, or a text such as \"64M\""))),
    };
    bytes.map_err(D::Error::custom)
}

/// Merges `over` into `base`: tables are merged, other values replaced.
pub(crate) fn overlay(base: &mut Table, over: Table) {
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(Value::Table(below)), Value::Table(above)) => overlay(below, above),
            (_, value) => {
                base.insert(key, value);
            }
        }
    }
}

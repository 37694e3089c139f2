//! Makes a single stack from the few words that options and builders have.

use nandkit_stack::{DeviceSpec, FsSpec, FtlSpec, StackError, StackSpec, suggest};
use toml::{Table, Value};

use crate::grid::{parse_setting, set};

/// The stack on a device: with this translation layer, or where none is named without one on
/// memory, on memory cards and below file systems that work on flash, on a drive with its own, else
/// with the block-mapped one. Over it each setting, as `stack.ftl.log_blocks=16`, is laid.
///
/// Errors: an unknown layer (key `ftl`), an unusable setting (key `set`), parts that do not fit
/// together (the key of the spec).
pub fn single_stack(
    device: DeviceSpec,
    ftl: Option<&str>,
    fs: FsSpec,
    settings: &[String],
) -> Result<StackSpec, StackError> {
    let setting = |detail: String| StackError::new("set", detail);
    let ftl = match ftl {
        Some(name) => {
            let table = Table::from_iter([("kind".to_string(), Value::String(name.to_string()))]);
            device.layer(table).map_err(|detail| StackError::new("ftl", detail))?
        }
        None if fs.is_on_flash() => FtlSpec::None,
        None => device.default_layer(),
    };
    let plain = Table::try_from(&StackSpec { device, ftl, fs, host: None });
    let plain = plain.map_err(|error| StackError::new("stack", error.to_string()))?;
    let mut whole = Table::from_iter([("stack".to_string(), Value::Table(plain))]);
    for text in settings {
        let (key, value) = parse_setting(text).map_err(|error| setting(error.to_string()))?;
        set(&mut whole, &key, value).map_err(|error| setting(error.to_string()))?;
    }
    let table = match whole.remove("stack") {
        Some(Value::Table(table)) if whole.is_empty() => table,
        _ => return Err(setting("expected keys that begin with stack.".to_string())),
    };
    let told = |error: toml::de::Error| StackError::new("stack", suggest::explain(error.message()));
    let spec: StackSpec = table.try_into().map_err(told)?;
    spec.check()?;
    Ok(spec)
}

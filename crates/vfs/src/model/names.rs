//! Which names the model accepts, and which of them are equal.

use super::{ModelOptions, NameRule};
use crate::{ErrorKind, FsError, Result};

/// Longest FAT name in UTF-16 units.
const FAT_UNITS_MAX: usize = 255;

impl ModelOptions {
    /// Checks that the format can store the name.
    pub(super) fn check_name(&self, name: &[u8]) -> Result<()> {
        let shown = || String::from_utf8_lossy(name.get(..64).unwrap_or(name)).into_owned();
        let invalid = |why: &str| Err(FsError::new(ErrorKind::InvalidName, format!("\"{}\": {why}", shown())));
        if name.is_empty() {
            return invalid("a name has at least one byte");
        }
        if name == b"." || name == b".." {
            return invalid("this name is reserved");
        }
        if name.iter().any(|byte| matches!(byte, b'/' | 0)) {
            return invalid("a name holds neither \"/\" nor NUL");
        }
        let too_long = || FsError::new(ErrorKind::NameTooLong, format!("\"{}...\" is too long", shown()));
        match self.name_rule {
            NameRule::Bytes => {}
            NameRule::FatLong => match std::str::from_utf8(name) {
                Err(_) => return invalid("a name is UTF-8"),
                Ok(text) if text.chars().any(|c| c < ' ' || "\"*:<>?\\|".contains(c)) => {
                    return invalid("control characters and \" * : < > ? \\ | are not allowed");
                }
                Ok(text) if text.ends_with(['.', ' ']) => return invalid("no full stop or space at the end"),
                Ok(text) if text.encode_utf16().count() > FAT_UNITS_MAX => return Err(too_long()),
                Ok(_) => {}
            },
        }
        if name.len() > self.name_max as usize { Err(too_long()) } else { Ok(()) }
    }

    /// The key by which names are compared: the name itself, or its upper-case form if case is
    /// ignored.
    pub(super) fn folded(&self, name: &[u8]) -> Vec<u8> {
        if self.features.case_sensitive {
            return name.to_vec();
        }
        match std::str::from_utf8(name) {
            Ok(text) => text.chars().map(upper).collect::<String>().into_bytes(),
            Err(_) => name.to_ascii_uppercase(),
        }
    }
}

/// Maps one character to one upper-case character, as the upcase tables of file systems do.
fn upper(c: char) -> char {
    let mut mapped = c.to_uppercase();
    match (mapped.next(), mapped.next()) {
        (Some(single), None) => single,
        _ => c,
    }
}

//! Bytes as text: printable ASCII as it is, all else as `%XX`.

use std::fmt::Write;

use serde::de::{Deserialize, Deserializer, Error};
use serde::ser::{Serialize, Serializer};

/// Bytes of a name, a value or a file. In JSON a string of ASCII, which grows by compressible parts
/// alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bytes(pub Vec<u8>);

impl From<&[u8]> for Bytes {
    fn from(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }
}

/// Whether a byte stands for itself: what JSON would escape does not.
const fn is_plain(byte: u8) -> bool {
    matches!(byte, b' '..=b'~') && !matches!(byte, b'%' | b'"' | b'\\')
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut text = String::with_capacity(self.0.len());
        for &byte in &self.0 {
            if is_plain(byte) {
                text.push(char::from(byte));
            } else {
                // Writing into a string does not fail.
                let _ = write!(text, "%{byte:02X}");
            }
        }
        serializer.serialize_str(&text)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        decode(text.as_bytes()).map(Self).ok_or_else(|| D::Error::custom("bytes that are no ASCII or %XX"))
    }
}

fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.iter();
    while let Some(&byte) = rest.next() {
        if byte == b'%' {
            let mut digit = || char::from(*rest.next()?).to_digit(16);
            let (high, low) = (digit()?, digit()?);
            bytes.push((high << 4 | low) as u8);
        } else if is_plain(byte) {
            bytes.push(byte);
        } else {
            return None;
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_comes_back_and_what_is_no_such_text_is_refused() {
        let all = Bytes((0..=255).collect());
        let text = serde_json::to_string(&all).unwrap();
        assert!(text.is_ascii() && text.contains("xyz%7F") | text.contains("xyz{|}~%7F"), "{text}");
        assert_eq!(serde_json::from_str::<Bytes>(&text).unwrap(), all);
        for wrong in ["\"%\"", "\"%4\"", "\"%4g\"", "\"a\\u00e9\"", "\"\\n\"", "5"] {
            assert!(serde_json::from_str::<Bytes>(wrong).is_err(), "{wrong}");
        }
    }
}

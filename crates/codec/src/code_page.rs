//! Code pages: byte encodings of characters from before Unicode.

use std::borrow::Cow;
use std::str::FromStr;

use encoding_rs::Encoding;
use oem_cp::code_table::DECODING_TABLE_CP_MAP;
use thiserror::Error;

/// The pages that `oem_cp` lacks: East Asian ones, in which a character takes one or two bytes, and
/// those of Windows. The labels are those of the Encoding Standard, whose tables extend the
/// numbered pages as Windows does.
static OTHERS: [(u16, &Encoding); 13] = [
    (932, &encoding_rs::SHIFT_JIS_INIT),
    (936, &encoding_rs::GBK_INIT),
    (949, &encoding_rs::EUC_KR_INIT),
    (950, &encoding_rs::BIG5_INIT),
    (1250, &encoding_rs::WINDOWS_1250_INIT),
    (1251, &encoding_rs::WINDOWS_1251_INIT),
    (1252, &encoding_rs::WINDOWS_1252_INIT),
    (1253, &encoding_rs::WINDOWS_1253_INIT),
    (1254, &encoding_rs::WINDOWS_1254_INIT),
    (1255, &encoding_rs::WINDOWS_1255_INIT),
    (1256, &encoding_rs::WINDOWS_1256_INIT),
    (1257, &encoding_rs::WINDOWS_1257_INIT),
    (1258, &encoding_rs::WINDOWS_1258_INIT),
];

/// A code page that can be decoded, identified by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CodePage(u16);

/// The error for an unknown code page.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("no code page \"{name}\"; expected one of {known}")]
pub struct UnknownCodePage {
    name: String,
    known: String,
}

impl Default for CodePage {
    /// Returns [`Self::CP437`].
    fn default() -> Self {
        Self::CP437
    }
}

impl CodePage {
    /// The code page of the first PC.
    pub const CP437: Self = Self(437);

    /// The numbers of all pages, in ascending order.
    pub fn known() -> Vec<u16> {
        let mut known: Vec<u16> =
            DECODING_TABLE_CP_MAP.keys().copied().chain(OTHERS.iter().map(|(number, _)| *number)).collect();
        known.sort_unstable();
        known
    }

    /// The page's number.
    pub const fn number(self) -> u16 {
        self.0
    }

    /// Decodes bytes to text; U+FFFD replaces bytes without a character in the page.
    pub fn decode(self, bytes: &[u8]) -> Cow<'_, str> {
        if bytes.is_ascii() {
            return String::from_utf8_lossy(bytes);
        }
        if let Some((_, encoding)) = OTHERS.iter().find(|(number, _)| *number == self.0) {
            return encoding.decode_without_bom_handling(bytes).0;
        }
        match DECODING_TABLE_CP_MAP.get(&self.0) {
            Some(table) => table.decode_string_lossy(bytes).into(),
            None => String::from_utf8_lossy(bytes),
        }
    }
}

impl FromStr for CodePage {
    type Err = UnknownCodePage;

    /// Parses a number such as 850 or cp850.
    fn from_str(text: &str) -> Result<Self, UnknownCodePage> {
        let lower = text.to_ascii_lowercase();
        let number = lower.strip_prefix("cp").unwrap_or(&lower).parse();
        let known = Self::known();
        number.ok().filter(|number| known.contains(number)).map(Self).ok_or_else(|| UnknownCodePage {
            name: text.to_owned(),
            known: known.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_known_by_number() {
        for number in CodePage::known() {
            let page: CodePage = format!("CP{number}").parse().expect("a page");
            assert_eq!((page.number(), page.decode(b"plain").as_ref()), (number, "plain"));
        }
        let wrong = "12".parse::<CodePage>().expect_err("no page").to_string();
        assert!(wrong.starts_with("no code page \"12\"; expected one of 437, 720, "), "{wrong}");
        assert!(wrong.contains("932, 936, 949, 950, 1250") && "-437".parse::<CodePage>().is_err());
    }

    #[test]
    fn bytes_are_the_characters_of_their_page() {
        for (number, bytes, text) in [
            ("437", &b"\x81\xe1"[..], "üß"),
            ("850", b"\x9b\xb7", "øÀ"),
            ("866", b"\x8f\xa0\xaf", "Пап"),
            ("932", b"\x8e\xca\x90^", "写真"),
            ("936", b"\xd6\xd0\xce\xc4", "中文"),
            ("949", b"\xc7\xd1\xb1\xdb", "한글"),
            ("950", b"\xa4\xa4\xa4\xe5", "中文"),
            ("857", b"\xd5A", "\u{fffd}A"),
            ("1251", b"\xcf", "П"),
        ] {
            let page: CodePage = number.parse().expect("a page");
            assert_eq!(page.decode(bytes), text, "{number}");
        }
    }
}

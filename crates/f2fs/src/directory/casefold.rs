//! Case-insensitive names: NFD and full case folding with Linux's tables (f2fs.md, "Directories",
//! "Casefolded directory").

use caseless::Caseless;
use unicode_normalization::UnicodeNormalization;

use super::unicode::is_assigned;

/// Folded names must be shorter than this (dir.c, `f2fs_init_casefolded_name`; utf8-core.c,
/// `utf8_casefold`, which wants room for a NUL).
const FOLDED_END: usize = 255;

/// The folded form of a name by Unicode 12.1, without default-ignorable characters. `None` for
/// names that Linux does not fold but compares byte by byte: invalid UTF-8, characters of later
/// Unicode versions, a folded form that is empty or longer than 254 bytes.
pub fn fold(name: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(name).ok().filter(|text| text.chars().all(is_assigned))?;
    // A decomposed character may fold again.
    let folded: String =
        text.chars().filter(|&c| !is_ignorable(c)).default_case_fold().nfd().default_case_fold().nfd().collect();
    Some(folded.into_bytes()).filter(|folded| (1..FOLDED_END).contains(&folded.len()))
}

/// The form by which names of a casefolded directory are compared and hashed.
pub fn key(name: &[u8]) -> Vec<u8> {
    fold(name).unwrap_or_else(|| name.to_vec())
}

/// Default_Ignorable_Code_Point of Unicode (DerivedCoreProperties.txt), which Linux's folding drops
/// (fs/unicode, `mkutf8data`).
const fn is_ignorable(c: char) -> bool {
    matches!(c,
        '\u{AD}' | '\u{34F}' | '\u{61C}' | '\u{115F}'..='\u{1160}' | '\u{17B4}'..='\u{17B5}' | '\u{180B}'..='\u{180E}'
        | '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{206F}' | '\u{3164}' | '\u{FE00}'..='\u{FE0F}'
        | '\u{FEFF}' | '\u{FFA0}' | '\u{FFF0}'..='\u{FFF8}' | '\u{1BCA0}'..='\u{1BCA3}' | '\u{1D173}'..='\u{1D17A}'
        | '\u{E0000}'..='\u{E0FFF}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_composition_and_what_cannot_be_seen_do_not_matter() {
        for (one, other) in [
            ("Hello", "hELLO"),
            ("\u{C9}t\u{E9}", "e\u{301}TE\u{301}"),
            ("Stra\u{DF}e", "STRASSE"),
            ("soft\u{AD}hyphen", "softhyphen"),
            ("\u{130}x", "i\u{307}X"),
        ] {
            assert_eq!(fold(one.as_bytes()), fold(other.as_bytes()), "{one}");
        }
        assert_ne!(fold(b"a"), fold(b"b"));
        assert_eq!((fold(&[0xFF]), key(&[0xFF, b'A'])), (None, vec![0xFF, b'A']));
        // From Unicode 13, only ignorable characters, and too long for Linux to fold.
        for opaque in ["\u{1F6D6}A", "\u{AD}\u{200B}", &"A".repeat(255), &"\u{390}".repeat(50)] {
            assert_eq!((fold(opaque.as_bytes()), key(opaque.as_bytes())), (None, opaque.as_bytes().to_vec()));
        }
        assert_eq!(fold("A".repeat(254).as_bytes()), Some(vec![b'a'; 254]));
    }
}

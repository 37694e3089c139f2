//! Long names and 8.3 names: which are valid, how one is derived from the other, and when two are
//! equal.
//!
//! The 8.3 rules are those of the specification's "basis-name" algorithm. Short names are written
//! in ASCII only; bytes above 0x7F that other systems wrote are decoded with a code page: by
//! default 437, the first in the specification's list and Linux' default.

use nandkit_codec::code_page::CodePage;
use nandkit_vfs::{ErrorKind, FsError, Result};

use crate::layout::{LongEntry, SLOT_E5, SLOT_FREE, ShortEntry, case};

/// Longest long name, in UTF-16 units.
pub const NAME_MAX: usize = 255;

/// A valid name.
#[derive(Clone, Debug)]
pub struct Name {
    /// The name as given.
    pub text: String,
    /// The name in UTF-16 units.
    pub units: Vec<u16>,
}

impl Name {
    /// Checks a name. Errors: `InvalidName`, `NameTooLong`.
    pub fn new(bytes: &[u8]) -> Result<Self> {
        let invalid = |why: String| FsError::new(ErrorKind::InvalidName, why);
        let text = std::str::from_utf8(bytes).map_err(|_| invalid("a FAT name must be UTF-8".into()))?;
        if text.is_empty() || text == "." || text == ".." {
            return Err(invalid(format!("{text:?} is no name")));
        }
        if let Some(wrong) = text.chars().find(|&c| !allowed_long(c)) {
            return Err(invalid(format!(
                "{text:?}: FAT names cannot hold {wrong:?} (nor control characters \" * / : < > ? \\ |)"
            )));
        }
        if text.ends_with(['.', ' ']) {
            return Err(invalid(format!("{text:?}: FAT names cannot end in a dot or blank")));
        }
        let units: Vec<u16> = text.encode_utf16().collect();
        if units.len() > NAME_MAX {
            return Err(FsError::new(
                ErrorKind::NameTooLong,
                format!("a name of {} characters; FAT holds {NAME_MAX}", units.len()),
            ));
        }
        Ok(Self { text: text.into(), units })
    }

    /// The key for lookups.
    pub fn key(&self) -> String {
        fold(&self.text)
    }
}

const fn allowed_long(c: char) -> bool {
    c as u32 >= 0x20 && !matches!(c, '"' | '*' | '/' | ':' | '<' | '>' | '?' | '\\' | '|')
}

/// The upper case of a name, character by character if it is a single character: names with the
/// same result are equal.
pub fn fold(text: &str) -> String {
    text.chars()
        .map(|c| {
            let mut upper = c.to_uppercase();
            match (upper.next(), upper.next()) {
                (Some(one), None) => one,
                _ => c,
            }
        })
        .collect()
}

/// The checksum that links long-name slots to a short name.
pub fn checksum(short: &[u8; 11]) -> u8 {
    short.iter().fold(0, |sum: u8, &byte| sum.rotate_right(1).wrapping_add(byte))
}

/// The displayed name of a short entry.
pub fn show_short(entry: &ShortEntry, page: CodePage) -> String {
    let part = |bytes: &[u8], lower: bool| -> String {
        let end = bytes.iter().rposition(|&byte| byte != b' ').map_or(0, |last| last + 1);
        let text = page.decode(bytes.get(..end).unwrap_or_default());
        text.chars().map(|c| shown(c, lower)).collect()
    };
    let mut name = entry.name;
    if name[0] == SLOT_E5 {
        name[0] = SLOT_FREE;
    }
    let (base, extension) = name.split_at(8);
    let base = part(base, entry.case_flags & case::BASE != 0);
    let extension = part(extension, entry.case_flags & case::EXTENSION != 0);
    let shown = if extension.is_empty() { base } else { format!("{base}.{extension}") };
    if shown.is_empty() || shown == "." || shown == ".." { "_".into() } else { shown }
}

fn shown(c: char, lower: bool) -> char {
    match c {
        char::REPLACEMENT_CHARACTER => '_',
        _ if !allowed_long(c) || c.is_control() => '_',
        _ if lower => c.to_ascii_lowercase(),
        _ => c,
    }
}

/// The text of a long name's units; `None` if no file system could show it.
pub fn show_long(units: &[u16]) -> Option<String> {
    let text = String::from_utf16(units).ok()?;
    let good = !text.is_empty() && text != "." && text != ".." && text.chars().all(|c| c != '/' && c != '\0');
    good.then_some(text)
}

/// The specification's basis name of a long name, before a number is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Basis {
    base: [u8; 8],
    base_length: u8,
    extension: [u8; 3],
    lossy: bool,
}

fn short_byte(c: char) -> Option<u8> {
    let upper = c.to_ascii_uppercase();
    let good = upper.is_ascii_alphanumeric() || "$%'-_@~`!(){}^#&".contains(upper);
    (good && upper.is_ascii()).then_some(upper as u8)
}

impl Basis {
    /// The basis name of a long name.
    pub fn of(long: &str) -> Self {
        let mut basis = Self { base: [b' '; 8], base_length: 0, extension: [b' '; 3], lossy: false };
        let without_dots = long.trim_start_matches(['.', ' ']);
        basis.lossy = without_dots.len() != long.len();
        let (stem, extension) = without_dots.rsplit_once('.').unwrap_or((without_dots, ""));
        for c in stem.chars() {
            if c == ' ' || c == '.' {
                basis.lossy = true;
                continue;
            }
            let byte = basis.byte(c);
            match basis.base.get_mut(usize::from(basis.base_length)) {
                Some(place) => {
                    *place = byte;
                    basis.base_length += 1;
                }
                None => basis.lossy = true,
            }
        }
        let mut places = 0..3;
        for c in extension.chars() {
            if c == ' ' {
                basis.lossy = true;
                continue;
            }
            let byte = basis.byte(c);
            match places.next().and_then(|place| basis.extension.get_mut(place)) {
                Some(place) => *place = byte,
                None => basis.lossy = true,
            }
        }
        if basis.base_length == 0 {
            (basis.base[0], basis.base_length, basis.lossy) = (b'_', 1, true);
        }
        basis
    }

    fn byte(&mut self, c: char) -> u8 {
        short_byte(c).unwrap_or_else(|| {
            self.lossy = true;
            b'_'
        })
    }

    /// The short name without a number; `None` if the long name lost something in the conversion.
    pub fn plain(&self) -> Option<[u8; 11]> {
        (!self.lossy).then(|| self.join(&self.base))
    }

    /// The short name with `~number`.
    pub fn numbered(&self, number: u32) -> [u8; 11] {
        let tail = format!("~{number}");
        let keep = usize::from(self.base_length).min(8usize.saturating_sub(tail.len()));
        let mut base = [b' '; 8];
        let bytes = self.base.iter().take(keep).copied().chain(tail.bytes());
        for (place, byte) in base.iter_mut().zip(bytes) {
            *place = byte;
        }
        self.join(&base)
    }

    fn join(&self, base: &[u8; 8]) -> [u8; 11] {
        let mut name = [b' '; 11];
        let (left, right) = name.split_at_mut(8);
        left.copy_from_slice(base);
        right.copy_from_slice(&self.extension);
        name
    }
}

/// Whether a long name equals its short name exactly: then it needs no long-name slots.
pub fn is_plain(long: &str, short: &[u8; 11]) -> bool {
    show_short(&ShortEntry { name: *short, ..ShortEntry::default() }, CodePage::default()) == long
}

/// The number of long-name slots that a name needs.
pub fn long_slots(units: &[u16]) -> u32 {
    units.len().div_ceil(LongEntry::CHARACTERS) as u32
}

/// The long-name slots of a name in medium order (last part first).
pub fn long_entries(units: &[u16], short: &[u8; 11]) -> Vec<LongEntry> {
    let checksum = checksum(short);
    let count = long_slots(units);
    let mut slots: Vec<LongEntry> = units
        .chunks(LongEntry::CHARACTERS)
        .zip(1u8..)
        .map(|(part, number)| {
            // The name is followed by one zero if there is space, then by all ones.
            let mut characters = [0xFFFF; LongEntry::CHARACTERS];
            for (place, unit) in characters.iter_mut().zip(part.iter().copied().chain([0])) {
                *place = unit;
            }
            let last = if u32::from(number) == count { LongEntry::LAST } else { 0 };
            LongEntry::new(number | last, checksum, &characters)
        })
        .collect();
    slots.reverse();
    slots
}

/// Assembles long-name slots while a directory is read from front to back.
#[derive(Debug, Default)]
pub struct LongNameReader {
    units: Vec<u16>,
    expected: u8,
    checksum: u8,
    first_slot: u32,
}

impl LongNameReader {
    /// Processes the next slot; drops an inconsistent sequence. Returns whether the slot continues
    /// or starts a sequence.
    pub fn take(&mut self, slot: u32, entry: &LongEntry) -> bool {
        let number = entry.order & 0x3F;
        let starts = entry.order & LongEntry::LAST != 0;
        if starts && (1..=20).contains(&number) {
            self.units = vec![0; usize::from(number) * LongEntry::CHARACTERS];
            (self.checksum, self.first_slot) = (entry.checksum, slot);
        } else if starts || number == 0 || number != self.expected || entry.checksum != self.checksum {
            self.clear();
            return false;
        }
        let at = (usize::from(number) - 1) * LongEntry::CHARACTERS;
        if let Some(place) = self.units.get_mut(at..at + LongEntry::CHARACTERS) {
            place.copy_from_slice(&entry.characters());
        }
        self.expected = number - 1;
        true
    }

    /// Whether a slot that does not start a sequence continues the current one.
    pub fn expects(&self, entry: &LongEntry) -> bool {
        entry.order == self.expected && entry.checksum == self.checksum
    }

    /// Drops the current sequence.
    pub fn clear(&mut self) {
        self.units.clear();
        self.expected = u8::MAX;
    }

    /// At a short entry: the preceding long name and its first slot, if it is complete and belongs
    /// to this entry.
    pub fn finish(&mut self, short: &[u8; 11]) -> Option<(Vec<u16>, u32)> {
        let complete = !self.units.is_empty() && self.expected == 0 && self.checksum == checksum(short);
        let mut units = std::mem::take(&mut self.units);
        self.expected = u8::MAX;
        let end = units.iter().position(|&unit| unit == 0).unwrap_or(units.len());
        units.truncate(end);
        (complete && !units.is_empty() && units.len() <= NAME_MAX).then_some((units, self.first_slot))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn basis(long: &str) -> (Option<String>, String) {
        let basis = Basis::of(long);
        let text = |name: [u8; 11]| String::from_utf8(name.to_vec()).unwrap();
        (basis.plain().map(text), text(basis.numbered(1)))
    }

    #[test]
    fn short_names_follow_the_specification() {
        for (long, plain, numbered) in [
            ("README.TXT", Some("README  TXT"), "README~1TXT"),
            ("readme.txt", Some("README  TXT"), "README~1TXT"),
            ("The quick brown.fox", None, "THEQUI~1FOX"),
            (".profile", None, "PROFIL~1   "),
            ("a.tar.gz", None, "ATAR~1  GZ "),
            ("x+y.c", None, "X_Y~1   C  "),
            ("日本", None, "__~1       "),
            ("longextension.jpeg", None, "LONGEX~1JPE"),
            ("...", None, "_~1        "),
        ] {
            let (p, n) = basis(long);
            assert_eq!((p.as_deref(), n.as_str()), (plain, numbered), "{long}");
        }
        assert_eq!(&Basis::of("longname.x").numbered(123_456), b"L~123456X  ");
    }

    #[test]
    fn long_names_come_back_from_their_slots() {
        for length in [1, 12, 13, 14, 26, 27, 255] {
            let text: String = ('a'..='z').cycle().take(length).collect();
            let units: Vec<u16> = text.encode_utf16().collect();
            let short = Basis::of(&text).numbered(7);
            let mut reader = LongNameReader::default();
            for (slot, entry) in long_entries(&units, &short).iter().enumerate() {
                assert!(reader.take(slot as u32 + 40, entry));
            }
            assert_eq!(reader.finish(&short), Some((units, 40)), "{length}");
            assert_eq!(reader.finish(&short), None);
        }
    }

    #[test]
    fn broken_sequences_are_forgotten() {
        let units: Vec<u16> = "a name of more than thirteen".encode_utf16().collect();
        let short = *b"ANAMEO~1   ";
        let slots = long_entries(&units, &short);
        for lost in 0..slots.len() {
            let mut reader = LongNameReader::default();
            for (at, entry) in slots.iter().enumerate().filter(|&(at, _)| at != lost) {
                reader.take(at as u32, entry);
            }
            assert_eq!(reader.finish(&short), None, "without slot {lost}");
        }
    }

    #[test]
    fn wrong_names_are_refused_by_kind() {
        for name in [&b"a/b"[..], b"", b".", b"..", b"a\0", b"tail.", b"tail ", b"a:b", b"\xff\xfe"] {
            assert_eq!(Name::new(name).unwrap_err().kind, ErrorKind::InvalidName, "{name:?}");
        }
        assert_eq!(Name::new(&[b'x'; 256]).unwrap_err().kind, ErrorKind::NameTooLong);
        assert_eq!(Name::new(&[b'x'; 255]).unwrap().units.len(), 255);
        assert_eq!(fold("straße.É.é"), "STRAßE.É.É");
    }

    #[test]
    fn short_names_are_shown_by_their_code_page_and_in_their_case() {
        let entry = ShortEntry { name: *b"\x05BC\x81    TXT", case_flags: case::EXTENSION, ..ShortEntry::default() };
        assert_eq!(show_short(&entry, CodePage::default()), "σBCü.txt");
        let page = |number: &str| number.parse().unwrap();
        let entry = |name: &[u8; 11]| ShortEntry { name: *name, case_flags: case::BASE, ..ShortEntry::default() };
        // The second byte of a character is neither a letter nor a backslash.
        assert_eq!(show_short(&entry(b"\x8e\xca\x90^\x95\x5cA TXT"), page("932")), "写真表a.TXT");
        // Half a character, and a character that the page lacks.
        assert_eq!(show_short(&entry(b"AB\x8e     TXT"), page("932")), "ab_.TXT");
        assert_eq!(show_short(&entry(b"\xd5       TXT"), page("857")), "_.TXT");
    }
}

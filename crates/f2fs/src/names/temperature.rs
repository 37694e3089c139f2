//! Classifies files as hot or cold by their extension (f2fs-writing.md, "Logs and classes",
//! "Extensions").

use crate::layout::inode::advise;

/// The bit of [`advise`] that Linux gives a new file with this name, 0 for none: the first match
/// wins, cold extensions first (namei.c, `set_file_temperature`).
pub fn advise_of<'a>(
    name: &[u8],
    cold: impl IntoIterator<Item = &'a str>,
    hot: impl IntoIterator<Item = &'a str>,
) -> u8 {
    let matches = |extension: &str| has_extension(name, extension);
    if cold.into_iter().any(matches) {
        advise::COLD
    } else if hot.into_iter().any(matches) {
        advise::HOT
    } else {
        0
    }
}

/// Whether Linux finds this extension in a name (namei.c, `is_extension_exist`): a dot that is not
/// the first character, the extension, then anything.
pub fn has_extension(name: &[u8], extension: &str) -> bool {
    let extension = extension.as_bytes();
    if extension == b"*" {
        return true;
    }
    if name.len() < extension.len() + 2 {
        return false;
    }
    (1..name.len() - extension.len()).any(|dot| {
        let behind = name.get(dot + 1..dot + 1 + extension.len());
        name.get(dot) == Some(&b'.') && behind.is_some_and(|behind| behind.eq_ignore_ascii_case(extension))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extension_is_a_beginning_behind_a_full_stop() {
        for (name, expected) in [
            ("a.mp4", advise::COLD),
            ("x.mp4.tmp", advise::COLD),
            ("x.MPeg", advise::COLD),
            (".mp4", 0),
            ("mp4", 0),
            ("a.db", advise::HOT),
            ("a.d", 0),
            ("a.db.jpg", advise::COLD),
        ] {
            assert_eq!(advise_of(name.as_bytes(), ["mp", "jp"], ["db"]), expected, "{name}");
        }
        assert_eq!(advise_of(b"a", [], ["*"]), advise::HOT);
    }
}

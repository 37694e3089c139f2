//! Reads text files of the user: specs and tables.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Largest size of a spec or a table in bytes; a larger file is not one.
const TEXT_MAX: u64 = 16 << 20;

/// Reads a spec.
pub fn read_spec(path: &Path) -> io::Result<String> {
    String::from_utf8(read_text(path)?).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.utf8_error()))
}

/// Reads a text of at most [`TEXT_MAX`] bytes from a file or a pipe, such as the shell's `<(...)`.
pub fn read_text(path: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    File::open(path)?.take(TEXT_MAX + 1).read_to_end(&mut text)?;
    if text.len() as u64 > TEXT_MAX {
        return Err(io::Error::other(format!("it has more than {TEXT_MAX} bytes")));
    }
    Ok(text)
}

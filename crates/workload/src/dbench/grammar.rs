//! The grammar of load files: a line is an operation, its arguments, and the status that it must
//! have.
//!
//! Source: the files that dbench 4.0 ships, and what its reader takes (`child.c`): words between
//! blanks or in quotes, a backslash for a slash, `#` for a comment, an instant in seconds before
//! the operation, numbers as strtol reads them, names of operations in any case; and of later
//! versions LOOP, ENDLOOP, REPEAT and random offsets (`loadfiles/nfs.txt`).

use std::collections::HashMap;
use std::io::{BufRead, Read};

use crate::error::{Nearest, Result, WorkloadError};
use crate::inputs::Inputs;
use crate::trace::{decompressed, shortened, unreadable};

/// Longest line: dbench's own buffer.
const LINE_MAX: u64 = 1024;
/// Most operations: a load is held in memory.
pub(super) const OPERATIONS_MAX: u64 = 4 << 20;
/// Most bytes of a read or write.
const LENGTH_MAX: u64 = 16 << 20;
/// Largest offset.
const OFFSET_MAX: u64 = 1 << 40;
/// Lines between two questions whether to stop.
const LINES_PER_QUESTION: u64 = 1024;

/// A path of the load, by its place in [`Load::paths`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct PathNumber(pub u32);

/// The status that an operation must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Succeeds,
    Fails,
    Any,
}

/// Where a read or write begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Offset {
    At(u64),
    /// `*`: a random number; aligned down (`/`), modulo (`%`), and something added (`+`).
    Random {
        align: u64,
        modulo: u64,
        plus: u64,
    },
}

/// What NTCreateX does with a file that is there, or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Disposition {
    pub creates: bool,
    pub truncates: bool,
}

/// One operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as dbench names them")]
pub(super) enum LoadOperation {
    Create {
        path: PathNumber,
        disposition: Disposition,
        directory: bool,
        handle: u64,
    },
    Close {
        handle: u64,
    },
    Read {
        handle: u64,
        offset: Offset,
        length: u32,
    },
    Write {
        handle: u64,
        offset: Offset,
        length: u32,
    },
    Flush {
        handle: u64,
    },
    Query {
        path: PathNumber,
    },
    Find {
        path: PathNumber,
    },
    Rename {
        from: PathNumber,
        to: PathNumber,
    },
    Unlink {
        path: PathNumber,
    },
    DeleteTree {
        path: PathNumber,
    },
    MakeDirectory {
        path: PathNumber,
    },
    RemoveDirectory {
        path: PathNumber,
    },
    /// An operation on an open file without work for a file system.
    OfHandle {
        handle: u64,
    },
    Nothing,
    Loop {
        times: u64,
    },
    /// LOOP for the next operation only.
    Repeat {
        times: u64,
    },
    EndLoop,
}

/// One line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LoadLine {
    pub line: u32,
    pub status: Status,
    pub operation: LoadOperation,
}

/// A load: its lines, of which the first `fill` are done before anything is measured.
#[derive(Debug, Default)]
pub(super) struct Load {
    pub lines: Vec<LoadLine>,
    pub fill: usize,
    /// Paths by their parts.
    pub paths: Vec<Vec<String>>,
    numbers: HashMap<String, PathNumber>,
}

/// Names of operations, for messages and the nearest right one.
const KNOWN: [&str; 20] = [
    "NTCreateX",
    "Close",
    "ReadX",
    "WriteX",
    "Flush",
    "Rename",
    "Unlink",
    "Deltree",
    "Mkdir",
    "Rmdir",
    "FIND_FIRST",
    "QUERY_PATH_INFORMATION",
    "QUERY_FILE_INFORMATION",
    "QUERY_FS_INFORMATION",
    "SET_FILE_INFORMATION",
    "LockX",
    "UnlockX",
    "Sleep",
    "LOOP",
    "REPEAT",
];

/// What is wrong with a line, and what would be right.
type Wrong = (String, String);

fn wrong<T>(found: impl Into<String>, expected: impl Into<String>) -> std::result::Result<T, Wrong> {
    Err((found.into(), expected.into()))
}

impl Load {
    /// Reads a load file. Errors: the file cannot be read, or a line does not follow the grammar.
    pub fn read(path: &str, inputs: &dyn Inputs) -> Result<Self> {
        let mut input = inputs.open(path).and_then(decompressed).map_err(|source| unreadable(path, source))?;
        let (mut load, mut bytes) = (Self::default(), Vec::new());
        // Lines of the LOOPs that have no ENDLOOP yet.
        let mut loops: Vec<u64> = Vec::new();
        for line in 1_u64.. {
            let fails =
                |(found, expected): Wrong| WorkloadError::Trace { file: path.to_string(), line, found, expected };
            if line.is_multiple_of(LINES_PER_QUESTION) && inputs.is_stopped() {
                return Err(WorkloadError::Cancelled { operations: 0 });
            }
            bytes.clear();
            let read = input.by_ref().take(LINE_MAX + 1).read_until(b'\n', &mut bytes);
            if read.map_err(|source| unreadable(path, source))? == 0 {
                break;
            }
            if bytes.len() as u64 > LINE_MAX {
                return Err(fails(("the line is longer".into(), format!("at most {LINE_MAX} bytes"))));
            }
            let Ok(text) = std::str::from_utf8(&bytes) else {
                return Err(fails(("bytes that are no text".into(), "a line of a load file".into())));
            };
            let Some((status, operation)) = load.parse(text).map_err(fails)? else { continue };
            match operation {
                LoadOperation::Loop { .. } => loops.push(line),
                LoadOperation::EndLoop if loops.pop().is_none() => {
                    return Err(fails(("ENDLOOP".into(), "a LOOP before it".into())));
                }
                _ => {}
            }
            if load.lines.len() as u64 >= OPERATIONS_MAX {
                return Err(fails(("one operation more".into(), format!("at most {OPERATIONS_MAX}"))));
            }
            load.lines.push(LoadLine { line: line as u32, status, operation });
        }
        let wrong = |line, found: &str, expected: &str| {
            let (found, expected) = (found.to_string(), expected.to_string());
            Err(WorkloadError::Trace { file: path.to_string(), line, found, expected })
        };
        match (loops.last(), load.lines.is_empty()) {
            (Some(line), _) => wrong(*line, "LOOP", "an ENDLOOP behind it"),
            (None, true) => wrong(1, "no operation", "lines as WriteX 9938 0 4096 4096 NT_STATUS_OK"),
            (None, false) => Ok(load),
        }
    }

    /// The number of a path; its parts are what stands between slashes.
    pub fn path(&mut self, text: &str) -> PathNumber {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = PathNumber(self.paths.len() as u32);
        self.paths.push(text.split('/').filter(|part| !part.is_empty()).map(str::to_string).collect());
        self.numbers.insert(text.to_string(), number);
        number
    }

    /// Reads a line; `None` for a blank one or a comment.
    fn parse(&mut self, text: &str) -> std::result::Result<Option<(Status, LoadOperation)>, Wrong> {
        let words = words(text)?;
        let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
        if words.first().is_none_or(|word| word.starts_with('#')) {
            return Ok(None);
        }
        if words[0].starts_with(|first: char| first.is_ascii_digit()) {
            if !words[0].parse::<f64>().is_ok_and(|seconds| seconds.is_finite() && seconds >= 0.0) {
                return wrong(format!("\"{}\"", shortened(words[0])), "an instant in seconds, or an operation");
            }
            words.remove(0);
        }
        let Some((name, arguments)) = words.split_first() else {
            return wrong("an instant alone", "an operation behind it");
        };
        let lower = name.to_ascii_lowercase();
        // These have no status.
        let control = match lower.as_str() {
            "loop" => Some(LoadOperation::Loop { times: number(arguments, 0, 1 << 32)? }),
            "repeat" => Some(LoadOperation::Repeat { times: number(arguments, 0, 1 << 32)? }),
            "endloop" => Some(LoadOperation::EndLoop),
            "sleep" => Some(LoadOperation::Nothing),
            _ => None,
        };
        if let Some(operation) = control {
            return Ok(Some((Status::Any, operation)));
        }
        let operation = self.operation(&lower, name, arguments)?;
        let status = status(arguments.last().copied())?;
        Ok(Some((status, operation)))
    }

    fn operation(&mut self, lower: &str, name: &str, arguments: &[&str]) -> std::result::Result<LoadOperation, Wrong> {
        use LoadOperation as Of;
        let handle = |at| number(arguments, at, u64::MAX);
        Ok(match lower {
            "ntcreatex" => {
                let path = self.path_at(arguments, 0)?;
                let directory = number(arguments, 1, u64::MAX)? & 1 != 0;
                let disposition = disposition(number(arguments, 2, 5)?);
                // A handle that is to fail is -1 in some files.
                let handle = if arguments.get(3) == Some(&"-1") { u64::MAX } else { handle(3)? };
                Of::Create { path, disposition, directory, handle }
            }
            "close" => Of::Close { handle: handle(0)? },
            "readx" | "writex" => {
                let (handle, offset) = (handle(0)?, offset(arguments, 1)?);
                let length = number(arguments, 2, LENGTH_MAX)? as u32;
                if lower == "readx" {
                    Of::Read { handle, offset, length }
                } else {
                    Of::Write { handle, offset, length }
                }
            }
            "flush" => Of::Flush { handle: handle(0)? },
            "query_path_information" => Of::Query { path: self.path_at(arguments, 0)? },
            "find_first" => Of::Find { path: self.path_at(arguments, 0)? },
            "rename" => Of::Rename { from: self.path_at(arguments, 0)?, to: self.path_at(arguments, 1)? },
            "unlink" => Of::Unlink { path: self.path_at(arguments, 0)? },
            "deltree" => Of::DeleteTree { path: self.path_at(arguments, 0)? },
            "mkdir" => Of::MakeDirectory { path: self.path_at(arguments, 0)? },
            "rmdir" => Of::RemoveDirectory { path: self.path_at(arguments, 0)? },
            "query_file_information" | "set_file_information" | "lockx" | "unlockx" => {
                Of::OfHandle { handle: handle(0)? }
            }
            "query_fs_information" => Of::Nothing,
            _ => {
                let near = Nearest::of(name, &KNOWN);
                let expected = format!("one of {}, ENDLOOP{near}", KNOWN.join(", "));
                return wrong(format!("the operation \"{}\" is unknown", shortened(name)), expected);
            }
        })
    }

    fn path_at(&mut self, arguments: &[&str], at: usize) -> std::result::Result<PathNumber, Wrong> {
        match arguments.get(at) {
            Some(text) if text.starts_with('/') && !text.split('/').any(|part| part == "." || part == "..") => {
                Ok(self.path(text))
            }
            Some(text) => wrong(format!("\"{}\"", shortened(text)), "a path from \\ on, without . and .. as parts"),
            None => wrong("too few arguments", "a path"),
        }
    }
}

/// Words between blanks; in quotes they may hold some. A backslash becomes a slash.
fn words(text: &str) -> std::result::Result<Vec<String>, Wrong> {
    let (mut words, mut rest) = (Vec::new(), text.trim());
    while !rest.is_empty() {
        let (word, behind) = match rest.strip_prefix('"') {
            Some(quoted) => match quoted.split_once('"') {
                Some(parts) => parts,
                None => return wrong("a quote that is not closed", "a second one"),
            },
            None => rest.split_once(char::is_whitespace).unwrap_or((rest, "")),
        };
        words.push(word.replace('\\', "/"));
        rest = behind.trim_start();
    }
    Ok(words)
}

/// A number as strtol takes it: hexadecimal behind 0x, octal behind 0.
fn parse_number(text: &str) -> Option<u64> {
    if let Some(digits) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        return u64::from_str_radix(digits, 16).ok();
    }
    let is_octal = text.len() > 1 && text.starts_with('0');
    u64::from_str_radix(text, if is_octal { 8 } else { 10 }).ok()
}

fn number(arguments: &[&str], at: usize, most: u64) -> std::result::Result<u64, Wrong> {
    let Some(text) = arguments.get(at) else { return wrong("too few arguments", "a number") };
    match parse_number(text) {
        Some(number) if number <= most => Ok(number),
        _ => wrong(format!("\"{}\"", shortened(text)), format!("a number up to {most}")),
    }
}

fn offset(arguments: &[&str], at: usize) -> std::result::Result<Offset, Wrong> {
    let Some(terms) = arguments.get(at).and_then(|text| text.strip_prefix('*')) else {
        return number(arguments, at, OFFSET_MAX).map(Offset::At);
    };
    let (mut align, mut modulo, mut plus) = (1, OFFSET_MAX, 0);
    let mut rest = terms;
    while let Some(sign) = rest.chars().next() {
        let behind = rest.get(sign.len_utf8()..).unwrap_or_default();
        let end = behind.find(['/', '%', '+']).unwrap_or(behind.len());
        let (digits, next) = behind.split_at(end);
        let value = parse_number(digits).filter(|value| *value <= OFFSET_MAX);
        match (sign, value) {
            ('/', Some(value @ 1..)) => align = value,
            ('%', Some(value @ 1..)) => modulo = value,
            ('+', Some(value)) => plus = value,
            _ => return wrong(format!("the offset \"*{}\"", shortened(terms)), "* with /NUMBER, %NUMBER or +NUMBER"),
        }
        rest = next;
    }
    Ok(Offset::Random { align, modulo, plus })
}

/// SMB's dispositions: supersede, open, create, open or create, overwrite, overwrite or create.
const fn disposition(number: u64) -> Disposition {
    Disposition { creates: !matches!(number, 1 | 4), truncates: matches!(number, 0 | 4 | 5) }
}

fn status(word: Option<&str>) -> std::result::Result<Status, Wrong> {
    match word {
        Some("NT_STATUS_OK" | "SUCCESS") => Ok(Status::Succeeds),
        Some("*") => Ok(Status::Any),
        Some("ERROR") => Ok(Status::Fails),
        Some(word) if word.starts_with("NT_STATUS_") => Ok(Status::Fails),
        Some(word) if word.starts_with("0x") && parse_number(word).is_some() => {
            Ok(if parse_number(word) == Some(0) { Status::Succeeds } else { Status::Fails })
        }
        word => {
            let found = word.map_or("no status".to_string(), |word| format!("the status \"{}\"", shortened(word)));
            wrong(found, "NT_STATUS_ and a name, 0x and a number, or *, at the end of the line")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> std::result::Result<Option<(Status, LoadOperation)>, Wrong> {
        Load::default().parse(text)
    }

    #[test]
    fn lines_are_read_as_dbench_reads_them() {
        use LoadOperation as Of;
        let path = PathNumber(0);
        for (text, expected) in [
            ("", None),
            ("# a comment", None),
            (
                r#"NTCreateX "\clients\client1\x y" 0x40 0x2 9938 NT_STATUS_OK"#,
                Some(Of::Create {
                    path,
                    disposition: Disposition { creates: true, truncates: false },
                    directory: false,
                    handle: 9938,
                }),
            ),
            (
                "WriteX 9938 65534 1 1 NT_STATUS_OK",
                Some(Of::Write { handle: 9938, offset: Offset::At(65_534), length: 1 }),
            ),
            ("1.25 readx 0x10 010 20 20 0x00000000", Some(Of::Read { handle: 16, offset: Offset::At(8), length: 20 })),
            (
                "ReadX 1 */0x1000%5000000+25 20 20 *",
                Some(Of::Read {
                    handle: 1,
                    offset: Offset::Random { align: 4096, modulo: 5_000_000, plus: 25 },
                    length: 20,
                }),
            ),
            (r"Unlink /a 0x6 NT_STATUS_OK", Some(Of::Unlink { path })),
            ("LockX 3 0 1 NT_STATUS_OK", Some(Of::OfHandle { handle: 3 })),
            ("LOOP 3", Some(Of::Loop { times: 3 })),
        ] {
            assert_eq!(parse(text).unwrap().map(|(_, operation)| operation), expected, "{text}");
        }
        let mut load = Load::default();
        let number = load.path("/clients//client1/x");
        assert_eq!(load.paths[number.0 as usize], ["clients", "client1", "x"]);
        for (text, expected) in [
            ("NT_STATUS_OK", Status::Succeeds),
            ("NT_STATUS_NO_SUCH_FILE", Status::Fails),
            ("0xC0000034", Status::Fails),
            ("*", Status::Any),
        ] {
            assert_eq!(parse(&format!("Close 1 {text}")).unwrap().unwrap().0, expected);
        }
    }

    #[test]
    fn wrong_lines_are_told() {
        for (text, parts) in [
            ("WritX 1 0 1 1 NT_STATUS_OK", ["\"WritX\" is unknown", "did you mean \"WriteX\""]),
            ("WriteX 1 0 NT_STATUS_OK", ["\"NT_STATUS_OK\"", "a number up to"]),
            ("WriteX 1 0 999999999 1 NT_STATUS_OK", ["\"999999999\"", "16777216"]),
            ("Close 1 OK", ["the status \"OK\"", "NT_STATUS_"]),
            ("Close", ["too few arguments", "a number"]),
            ("Unlink \"\\a", ["not closed", "second"]),
            ("Unlink a NT_STATUS_OK", ["\"a\"", "a path"]),
            ("Unlink \\..\\a NT_STATUS_OK", ["..", "a path"]),
            ("ReadX 1 */0 1 1 NT_STATUS_OK", ["*/0", "NUMBER"]),
            ("1.5", ["an instant alone", "operation"]),
            ("RANDOMSTRING 1 \"[a-z]\"", ["\"RANDOMSTRING\" is unknown", "one of"]),
        ] {
            let (found, expected) = parse(text).unwrap_err();
            assert!(found.contains(parts[0]) && expected.contains(parts[1]), "{text}: {found}; {expected}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_line_panics(text in ".{0,80}", number in "[*/%+0-9x-]{0,12}") {
            let _ = parse(&text);
            let _ = parse(&format!("ReadX {number} {number} {number} {number} *"));
        }
    }
}

//! Rules of where a file system may answer otherwise than the model.

use nandkit_units::Nanos;
use nandkit_vfs::ErrorKind::{
    Exists, InvalidArgument, InvalidName, IsADirectory, NameTooLong, NotADirectory, NotEmpty, NotFound,
};
use nandkit_vfs::model::ModelOptions;
use nandkit_vfs::{Attributes, ErrorKind, FileKind, Result};

use super::Operation;
use super::execute::Value;

/// Pairs of errors that both apply where an operation breaks two rules at once; nothing says which
/// comes first.
const EITHER: &[(ErrorKind, ErrorKind)] = &[
    // A name that is not possible does not exist, either.
    (NotFound, InvalidName),
    (NotFound, NameTooLong),
    (NotADirectory, InvalidName),
    (NotADirectory, NameTooLong),
    (Exists, NotFound),
];

/// Pairs of errors that count as equal for renames and links, which take two names.
const EITHER_WITH_TWO_NAMES: &[(ErrorKind, ErrorKind)] = &[
    (InvalidName, NameTooLong),
    (NotFound, NotADirectory),
    (IsADirectory, NotEmpty),
    (IsADirectory, Exists),
    (IsADirectory, InvalidName),
    (IsADirectory, NameTooLong),
    (InvalidArgument, NotEmpty),
    (InvalidArgument, NotADirectory),
    (InvalidArgument, Exists),
    (InvalidArgument, InvalidName),
    (InvalidArgument, NameTooLong),
    (InvalidArgument, NotFound),
];

/// Compares two answers. Errors: what is wrong.
pub(super) fn agree(
    operation: &Operation,
    options: &ModelOptions,
    found: &Result<Value>,
    expected: &Result<Value>,
    slowest: Nanos,
) -> std::result::Result<(), String> {
    let same = match (found, expected) {
        (Ok(Value::Attributes(found)), Ok(Value::Attributes(expected))) => {
            return attributes(options, found, expected, slowest);
        }
        (Ok(found), Ok(expected)) => found == expected,
        (Err(found), Err(expected)) => errors(operation, found.kind, expected.kind),
        _ => false,
    };
    if same { Ok(()) } else { Err(format!("{}, the model: {}", show(found), show(expected))) }
}

fn errors(operation: &Operation, found: ErrorKind, expected: ErrorKind) -> bool {
    let among = |pairs: &[(ErrorKind, ErrorKind)]| {
        pairs.iter().any(|(a, b)| (found, expected) == (*a, *b) || (found, expected) == (*b, *a))
    };
    let two_names = matches!(operation, Operation::Rename { .. } | Operation::Link { .. });
    found == expected || among(EITHER) || (two_names && among(EITHER_WITH_TWO_NAMES))
}

fn attributes(
    options: &ModelOptions,
    found: &Attributes,
    expected: &Attributes,
    slowest: Nanos,
) -> std::result::Result<(), String> {
    let features = &options.features;
    let slack = features.modified_step_ns.saturating_add(slowest.get());
    let is_directory = expected.kind == FileKind::Directory;
    let wrong = [
        ("kind", found.kind != expected.kind),
        ("size", matches!(expected.kind, FileKind::Regular | FileKind::Symlink) && found.size != expected.size),
        ("mode", features.permissions && found.mode != expected.mode),
        ("owner", features.owners && (found.uid, found.gid) != (expected.uid, expected.gid)),
        ("links", features.hard_links && !is_directory && found.links != expected.links),
        ("device", found.device != expected.device),
        ("modified", expected.kind == FileKind::Regular && found.modified.0.abs_diff(expected.modified.0) > slack),
    ];
    match wrong.iter().find(|(_, wrong)| *wrong) {
        None => Ok(()),
        Some((what, _)) => Err(format!("{what}: {found:?}, the model: {expected:?}")),
    }
}

fn show(result: &Result<Value>) -> String {
    match result {
        Ok(Value::Bytes(bytes)) => {
            let start = bytes.get(..16).unwrap_or(bytes);
            format!("{} bytes {start:02x?}, hash {:x}", bytes.len(), fnv(bytes))
        }
        Ok(value) => format!("{value:?}"),
        Err(error) => error.to_string(),
    }
}

/// Tells long contents apart in a message (FNV-1a, public domain).
fn fnv(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xCBF2_9CE4_8422_2325, |hash: u64, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3))
}

//! Running the binary.

#[allow(dead_code, reason = "not every test binary makes nodes by hand")]
pub mod jffs2;
#[allow(dead_code, reason = "not every test binary mounts")]
pub mod mounted;
pub mod noise;

use std::path::Path;
use std::process::Command;

use nandkit_testkit::judges;
use serde_json::Value;

/// What a call of nandkit gave.
#[derive(Debug)]
pub struct ProgramRun {
    pub status: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// Calls nandkit with these arguments in a directory.
pub fn nandkit(directory: &Path, arguments: &[&str]) -> ProgramRun {
    let output = Command::new(env!("CARGO_BIN_EXE_nandkit"))
        .args(arguments)
        .current_dir(directory)
        .env("COLUMNS", "110")
        .env("NOISE", noise::file())
        .output()
        .expect("the binary runs");
    ProgramRun {
        status: output.status.code(),
        stdout: String::from_utf8(output.stdout).expect("UTF-8"),
        stderr: String::from_utf8(output.stderr).expect("UTF-8"),
    }
}

/// fsck.f2fs has no complaint of an image in a directory.
#[track_caller]
pub fn fsck_f2fs(directory: &Path, image: &str) {
    judges::must_be_sound(judges::fsck_f2fs(&directory.join(image)), image);
}

/// fsck.vfat has no complaint of an image in a directory.
#[track_caller]
pub fn fsck_vfat(directory: &Path, image: &str) {
    judges::must_be_sound(judges::fsck_vfat(&directory.join(image)), image);
}

/// A directory on the disk, for tests of what files in memory have not: extents, attributes of
/// users, a place that is there without `/dev`. Other directories of tests may be in memory.
pub fn on_disk() -> tempfile::TempDir {
    tempfile::tempdir_in("/var/tmp").expect("a directory")
}

/// Calls nandkit and expects success.
#[allow(dead_code, reason = "not every test binary calls it")]
pub fn succeeds(directory: &Path, arguments: &[&str]) -> String {
    let outcome = nandkit(directory, arguments);
    assert_eq!(outcome.status, Some(0), "{arguments:?}: {}", outcome.stderr);
    outcome.stdout
}

/// Calls nandkit and expects success, with JSON.
pub fn json(directory: &Path, arguments: &[&str]) -> Value {
    let text = succeeds(directory, arguments);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Calls nandkit and expects an exit status.
#[track_caller]
pub fn exits(directory: &Path, arguments: &[&str], status: i32) -> ProgramRun {
    let outcome = nandkit(directory, arguments);
    assert_eq!(outcome.status, Some(status), "{arguments:?}: {}{}", outcome.stdout, outcome.stderr);
    outcome
}

/// Calls nandkit and expects an exit status and a part of what is told on standard error.
#[track_caller]
pub fn tells(directory: &Path, arguments: &[&str], status: i32, part: &str) -> ProgramRun {
    let outcome = exits(directory, arguments, status);
    assert!(outcome.stderr.contains(part), "{part:?} is not in {arguments:?}: {}", outcome.stderr);
    outcome
}

/// Calls nandkit and expects a refusal: exit status 2, nothing on standard output, and these parts
/// of the message.
#[track_caller]
pub fn refused(directory: &Path, arguments: &[&str], parts: &[&str]) {
    let outcome = exits(directory, arguments, 2);
    assert_eq!(outcome.stdout, "", "{arguments:?}");
    for part in parts {
        assert!(outcome.stderr.contains(part), "{part:?} is not in {arguments:?}: {}", outcome.stderr);
    }
}

/// Calls the shell, in a directory and with root's tools, and expects success. Returns standard
/// output.
#[track_caller]
pub fn run(directory: &Path, command: &str) -> String {
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let mut sh = Command::new("/bin/sh");
    sh.args(["-c", command]).env("PATH", path).env("NOISE", noise::file()).env("TZ", "UTC");
    let output = sh.current_dir(directory).output().expect("sh runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{command}: {text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

/// The names in a directory, in order.
pub fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).expect("a listing").flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Calls nandkit for a file's bytes: exit status, standard output, standard error.
#[allow(dead_code, reason = "not every test binary calls it")]
pub fn nandkit_bytes(directory: &Path, arguments: &[&str]) -> (Option<i32>, Vec<u8>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_nandkit")).args(arguments).current_dir(directory).output();
    let output = output.expect("the binary runs");
    (output.status.code(), output.stdout, String::from_utf8_lossy(&output.stderr).into_owned())
}

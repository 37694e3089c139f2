//! Running the binary.

#[allow(dead_code, reason = "not every test binary makes nodes by hand")]
pub mod jffs2;
#[allow(dead_code, reason = "not every test binary mounts")]
pub mod mounted;
pub mod noise;

use std::path::Path;
use std::process::Command;

use nandkit_testkit::judges;

/// What a call of nandkit gave.
pub struct Outcome {
    pub status: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// Calls nandkit with these arguments in a directory.
pub fn nandkit(directory: &Path, arguments: &[&str]) -> Outcome {
    let output = Command::new(env!("CARGO_BIN_EXE_nandkit"))
        .args(arguments)
        .current_dir(directory)
        .env("COLUMNS", "110")
        .env("NOISE", noise::file())
        .output()
        .expect("the binary runs");
    Outcome {
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

/// Calls nandkit and expects success.
#[allow(dead_code, reason = "not every test binary calls it")]
pub fn succeeds(directory: &Path, arguments: &[&str]) -> String {
    let outcome = nandkit(directory, arguments);
    assert_eq!(outcome.status, Some(0), "{arguments:?}: {}", outcome.stderr);
    outcome.stdout
}

/// Calls nandkit for a file's bytes: exit status, standard output, standard error.
#[allow(dead_code, reason = "not every test binary calls it")]
pub fn nandkit_bytes(directory: &Path, arguments: &[&str]) -> (Option<i32>, Vec<u8>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_nandkit")).args(arguments).current_dir(directory).output();
    let output = output.expect("the binary runs");
    (output.status.code(), output.stdout, String::from_utf8_lossy(&output.stderr).into_owned())
}

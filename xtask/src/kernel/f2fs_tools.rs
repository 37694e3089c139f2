//! The programs that the trials of F2FS have in common: nandkit's examples, and fsck.f2fs.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};
use nandkit_judges as judges;

use super::manifest::Manifest;
use crate::process;

/// Longest time of a guest: far more than any takes on a loaded machine.
pub const TIMEOUT: Duration = Duration::from_secs(1800);

/// The program that lists an image as the guest's helper lists a tree.
pub fn build_lister() -> Result<PathBuf> {
    build_example("f2fs-manifest")
}

/// A program of the examples.
pub fn build_example(name: &str) -> Result<PathBuf> {
    let arguments = ["build", "--quiet", "--locked", "--package", "nandkit-f2fs", "--example", name];
    let (profile, flags): (_, &[&str]) =
        if cfg!(debug_assertions) { ("debug", &[]) } else { ("release", &["--release"]) };
    ensure!(process::succeeds(process::cargo(&arguments).args(flags))?, "{name} does not compile");
    Ok(process::target_directory()?.join(profile).join("examples").join(name))
}

/// The tree of an image, and what else the lister says.
pub fn list(lister: &Path, image: &Path, paths: &[&str]) -> Result<(Manifest, String)> {
    let text = process::output(Command::new(lister).arg(image).args(paths))?;
    let is_told = |line: &&str| {
        ["note\t", "found\t", "absent\t", "data\t", "compressed\t", "hashed\t"]
            .iter()
            .any(|word| line.starts_with(word))
    };
    let (told, tree): (Vec<&str>, Vec<&str>) = text.lines().partition(is_told);
    Ok((Manifest::parse(&(tree.join("\n") + "\n"))?, told.join("\n")))
}

/// Checks that fsck.f2fs has no complaint about an image.
pub fn fsck_f2fs(image: &Path) -> Result<()> {
    let complaints = judges::fsck_f2fs(image)?;
    ensure!(complaints.is_empty(), "fsck.f2fs complains of {}:\n{}", image.display(), complaints.join("\n"));
    Ok(())
}

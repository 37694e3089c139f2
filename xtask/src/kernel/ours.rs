//! nandkit's side of a trial: its command line, called as a user calls it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::build::Kernel;
use super::jffs2::{Device, Image};
use super::manifest::Manifest;
use crate::options::Options;
use crate::process;

/// Options of making an image.
#[derive(Clone, Copy, Debug)]
pub struct Made {
    /// The compressions, as `--compress` takes them.
    pub compress: &'static str,
    /// Whether the image holds the OOB of NAND.
    pub oob: bool,
    /// Whether blocks end in summaries.
    pub summaries: bool,
}

/// The program under test.
#[derive(Clone, Debug)]
pub struct Nandkit {
    binary: PathBuf,
}

impl Nandkit {
    /// The program that `--nandkit PATH` names, or else the workspace's own, built as this task
    /// was: optimised where it is.
    pub fn find(options: &Options) -> Result<Self> {
        if let Some(path) = options.text("--nandkit") {
            let binary = fs::canonicalize(path).with_context(|| format!("--nandkit {path}"))?;
            return Ok(Self { binary });
        }
        let (profile, flags): (_, &[&str]) =
            if cfg!(debug_assertions) { ("debug", &[]) } else { ("release", &["--release"]) };
        let mut build = process::cargo(&["build", "--quiet", "--locked", "--package", "nandkit-cli"]);
        if !process::succeeds(build.args(flags))? {
            bail!("nandkit does not compile");
        }
        Ok(Self { binary: process::target_directory()?.join(profile).join("nandkit") })
    }

    /// A call of it, to be completed.
    pub fn command(&self) -> Command {
        Command::new(&self.binary)
    }

    /// Runs an experiment; its records.
    pub fn run(&self, spec: &Path) -> Result<Value> {
        let records = process::output(Command::new(&self.binary).arg("run").arg(spec).arg("--json"))?;
        serde_json::from_str(&records).context("records that are no JSON")
    }

    /// Makes an image of the tree for the device. Without OOB cleanmarkers are in the image on NOR,
    /// and nowhere for NAND; with OOB the image is as large as the device, so that each block has
    /// its cleanmarker there.
    pub fn mkfs(&self, tree: &Path, device: Device, made: Made, to: &Path) -> Result<Image> {
        let mut mkfs = Command::new(&self.binary);
        mkfs.args(["mkfs", "jffs2", "--compress", made.compress, "--from"]).arg(tree);
        mkfs.args(["--erase-size", &device.erase_bytes().to_string()]);
        let oob = device.page_bytes().filter(|_| made.oob);
        match (device.page_bytes(), oob) {
            (_, Some((page, oob))) => {
                mkfs.arg(format!("--oob={page}+{oob}")).args(["--size", &device.bytes().to_string()]);
            }
            (Some(_), None) => {
                mkfs.arg("--no-cleanmarkers");
            }
            (None, None) => {}
        }
        if made.summaries {
            mkfs.arg("--summary");
        }
        process::output(mkfs.arg(to))?;
        Ok(Image { path: to.to_owned(), with_oob: oob.is_some() })
    }

    /// Takes an image apart into a directory, which must not be there yet, and lists what came out.
    pub fn extract(&self, kernel: &Kernel, device: Device, image: &Image, to: &Path) -> Result<Manifest> {
        let mut extract = Command::new(&self.binary);
        extract.arg("extract").args(geometry(device)).arg(&image.path).arg(to);
        process::output(&mut extract)?;
        Manifest::of_directory(kernel, to)
    }

    /// Extracts an image that may be damaged; exit status 1 says that it is.
    pub fn extract_damaged(&self, kernel: &Kernel, device: Device, image: &Image, to: &Path) -> Result<Manifest> {
        let mut extract = Command::new(&self.binary);
        let done = extract.arg("extract").args(geometry(device)).arg(&image.path).arg(to).output()?;
        if !matches!(done.status.code(), Some(0 | 1)) {
            bail!("nandkit extract {}: {}", image.path.display(), String::from_utf8_lossy(&done.stderr));
        }
        Manifest::of_directory(kernel, to)
    }

    /// Changes an image in place by a command and the words behind its image; returns the command's
    /// report.
    pub fn change(&self, device: Device, image: &Path, words: &[&str]) -> Result<Value> {
        let Some((command, rest)) = words.split_first() else { bail!("no command") };
        let mut change = Command::new(&self.binary);
        change.arg(command).arg(image).args(rest).args(geometry(device)).arg("--json");
        let report = process::output(&mut change).with_context(|| words.join(" "))?;
        serde_json::from_str(&report).context("a report that is no JSON")
    }
}

/// The options that say what the image lies on. The one place that follows nandkit's command line.
fn geometry(device: Device) -> Vec<String> {
    let mut words = vec!["--erase-size".to_owned(), device.erase_bytes().to_string()];
    if let Some((page, oob)) = device.page_bytes() {
        words.extend(["--page-size".to_owned(), page.to_string(), "--oob-size".to_owned(), oob.to_string()]);
    }
    words
}

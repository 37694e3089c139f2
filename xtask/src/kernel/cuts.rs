//! `cargo xtask kernel cuts`: what power cuts leave of a volume, as Linux and as nandkit see it.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::build::Kernel;
use super::jffs2::{self, Device, Image, Job};
use super::ours::Nandkit;
use super::trial::{KEEP, Trial};
use crate::options::Options;
use crate::process;

/// The geometry of the test that cuts: `cuts_on_nand` in crates/jffs2/tests/cuts.rs.
const DEVICE: Device = Device::Nand16k { blocks: 26 };

/// A second a job on an idle machine, and the boot.
const TIMEOUT: Duration = Duration::from_secs(900);

/// The command.
pub fn run(arguments: &[String]) -> Result<bool> {
    let options = Options::parse(arguments, &[KEEP], &["--images", "--seed", "--nandkit"], 0)?;
    Trial::run("cuts", &options, |trial| {
        let nandkit = Nandkit::find(&options)?;
        let (count, seed) = (options.number("--images", 50)?, options.number("--seed", 1)?);
        compare(&trial.kernel, &nandkit, &trial.work, count, seed)
    })
}

/// Samples `count` images of the cut test by `seed`, and lets Linux and nandkit list each: the
/// trees must be the same, contents included.
pub fn compare(kernel: &Kernel, nandkit: &Nandkit, work: &Path, count: u64, seed: u64) -> Result<()> {
    let images = work.join("images");
    fs::create_dir_all(&images)?;
    let mut test = process::cargo(&["test", "--quiet", "--locked", "--package", "nandkit-jffs2", "--test", "all"]);
    if !cfg!(debug_assertions) {
        test.arg("--release");
    }
    test.args(["cuts::cuts_on_nand", "--", "--exact"]);
    test.env("NANDKIT_CUT_IMAGES", &images).env("NANDKIT_CUT_SAMPLE", format!("{count}:{seed}"));
    process::output(&mut test).context("the test that cuts")?;
    let mut jobs = Vec::new();
    for entry in fs::read_dir(&images)? {
        let path = entry?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let image = Some(Image { path, with_oob: true });
        jobs.push(Job { name, device: DEVICE, image, options: String::new(), churn: None, dump_oob: true });
    }
    jobs.sort_by(|a, b| a.name.cmp(&b.name));
    ensure!(jobs.len() as u64 == count, "the test left {} images of {count}", jobs.len());
    let start = Instant::now();
    let (done, _) = jffs2::run(kernel, &work.join("linux"), &jobs, TIMEOUT)?;
    let linux = start.elapsed();
    let mut different = Vec::new();
    let (mut entries, mut told) = (0, 0);
    for (job, done) in jobs.iter().zip(&done) {
        let Some(image) = &job.image else { continue };
        let to = work.join(format!("{}.extracted", job.name));
        let ours = nandkit.extract_damaged(kernel, DEVICE, image, &to)?.without_root();
        let theirs = done.mounted.clone().without_root();
        entries += theirs.len();
        told += usize::from(!done.complaints.is_empty());
        if let Err(error) = theirs.must_equal(&ours, &format!("{}: Linux / nandkit", job.name)) {
            different.push(format!("{error}\n  Linux says:\n  {}", done.complaints.join("\n  ")));
        }
    }
    if !different.is_empty() {
        bail!("{} of {count} images differ\n{}", different.len(), different.join("\n"));
    }
    println!(
        "after power cuts: {count} images (seed {seed}), {entries} entries, the same to Linux and nandkit; Linux had something to say of {told}; {:.0} s in the guest",
        linux.as_secs_f64()
    );
    Ok(())
}

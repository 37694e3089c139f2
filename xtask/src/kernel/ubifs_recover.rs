//! `cargo xtask kernel ubifs-recover`: UBIFS volumes that nandkit wrote, cut off at any moment,
//! recovered by Linux and by nandkit.
//!
//! The test of cuts leaves volumes, of which each third one lost its index and was repaired. Linux
//! mounts each, with all of its own checks on, must see the tree that nandkit sees, commits, and
//! writes until it collects; nandkit must read what Linux left.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::guest::Guest;
use super::jffs2::Device;
use super::manifest::Manifest;
use super::ours::Nandkit;
use super::trial::{KEEP, Trial};
use crate::options::Options;
use crate::process;

/// A few seconds a volume, far more than that on a loaded machine.
const TIMEOUT: Duration = Duration::from_secs(2400);

/// The commands of the guest.
const WORK: &str = include_str!("guest/ubifs_recover.sh");

/// LEBs of the volumes that the test of cuts makes (crates/ubifs/tests/cuts.rs).
const LEBS: u32 = 44;

/// The shapes of these volumes: name, flash, offset of volume identifiers, and how many MiB Linux
/// writes; 0: as much as little room takes.
const SHAPES: [(&str, Device, u32, u64); 2] =
    [("large", Device::Nand128k { blocks: 128 }, 2048, 12), ("small", Device::Nand16k { blocks: 512 }, 512, 0)];

/// Runs the trial and prints what it saw; an error where something does not hold.
pub fn run(arguments: &[String]) -> Result<bool> {
    let options = Options::parse(arguments, &[KEEP], &["--images", "--nandkit"], 0)?;
    super::test::must_be_root()?;
    let nandkit = Nandkit::find(&options)?;
    let count = options.number("--images", 25)?;
    Trial::run("ubifs-recover", &options, |trial| {
        make(&trial.work, count)?;
        SHAPES.iter().try_for_each(|(name, device, offset, mib)| {
            let place = trial.work.join(name);
            linux_recovers(trial, &place, *device, (*offset, *mib)).with_context(|| (*name).to_owned())?;
            compare(trial, &nandkit, &place).with_context(|| (*name).to_owned())
        })
    })
}

/// Lets the test of cuts leave `count` volumes of each shape.
fn make(work: &Path, count: u64) -> Result<()> {
    for (name, ..) in SHAPES {
        fs::create_dir_all(work.join(name))?;
    }
    let mut test = process::cargo(&["test", "--quiet", "--locked", "--package", "nandkit-ubifs", "--test", "all"]);
    if !cfg!(debug_assertions) {
        test.arg("--release");
    }
    test.args(["cuts::what_was_synced_is_there_after_cuts", "--", "--exact"]);
    test.env("NANDKIT_CUT_IMAGES", work).env("NANDKIT_CUT_SAMPLE", count.to_string());
    process::output(&mut test).context("the test that cuts")?;
    Ok(())
}

/// One boot for all volumes of a shape.
fn linux_recovers(trial: &Trial, place: &Path, device: Device, (offset, mib): (u32, u64)) -> Result<()> {
    let images = images(place)?;
    ensure!(!images.is_empty(), "the test of cuts left no volume");
    fs::write(place.join("images"), images.join("\n"))?;
    let name = place.file_name().and_then(|name| name.to_str()).context("a name")?;
    let script =
        format!("{}\nlebs={LEBS} offset={offset} mib={mib}\ncd /share/{name}\n{WORK}\nall\n", device.appear('a'));
    let guest = Guest::new(&trial.kernel, "ubifs-recover").share(&trial.work).module("ubi").module("ubifs");
    let outcome = guest.timeout(TIMEOUT).run(&script)?.success()?;
    let complaints: Vec<&str> = outcome.log.lines().filter(|line| super::ubifs::is_complaint(line)).collect();
    ensure!(complaints.is_empty(), "Linux complains:\n  {}", complaints.join("\n  "));
    println!("{name}: {} volumes, {:.0} s in the guest", images.len(), outcome.took.as_secs_f64());
    Ok(())
}

fn images(place: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(place)? {
        let name = entry?.file_name().into_string().unwrap_or_default();
        if name.ends_with(".ubifs") {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// Compares what Linux saw of each volume with what nandkit reads of it.
fn compare(trial: &Trial, nandkit: &Nandkit, place: &Path) -> Result<()> {
    let mut entries = 0;
    for name in images(place)? {
        let path = |end: &str| place.join(format!("{name}{end}"));
        for (image, tree) in [(path(""), path(".linux")), (path(".after"), path(".churned"))] {
            let to = path(".out");
            process::output(nandkit.command().arg("extract").arg(&image).arg(&to)).with_context(|| name.clone())?;
            let ours = Manifest::of_directory(&trial.kernel, &to)?;
            Manifest::of_file(&tree)?.must_equal(&ours, &format!("{}: Linux / nandkit", image.display()))?;
            entries += ours.len();
            fs::remove_dir_all(&to)?;
        }
        process::output(nandkit.command().arg("check").arg(path(".after")))
            .with_context(|| format!("{name}: check"))?;
    }
    println!("{entries} entries, the same to Linux and nandkit");
    Ok(())
}

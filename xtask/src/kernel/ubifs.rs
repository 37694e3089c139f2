//! `cargo xtask kernel ubifs`: what Linux writes into UBIFS on UBI, read by nandkit.
//!
//! Linux fills volumes on flash of the kernel's simulator, and the flash is dumped as a power cut
//! would leave it: after a sync, with all changes in the journal, with removed files open, between
//! writes and in commits, after a cut that UBIFS emulates, and unmounted. Linux mounts each dump
//! again, which recovers it. nandkit must see the tree that Linux sees then, and find no damage.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::guest::{Guest, GuestRun};
use super::jffs2::Device;
use super::manifest::Manifest;
use super::ours::Nandkit;
use super::trial::{KEEP, Trial};
use crate::options::{Options, Unusable};
use crate::process;

/// Longest time of a guest: far more than any takes on a loaded machine.
const TIMEOUT: Duration = Duration::from_secs(2400);

/// The commands of the guest.
const WORK: &str = include_str!("guest/ubifs.sh");

const LARGE_PAGES: Device = Device::Nand128k { blocks: 128 };
const SMALL_PAGES: Device = Device::Nand16k { blocks: 1024 };

/// A flash, and how Linux writes it.
#[derive(Clone, Copy, Debug)]
struct Variant {
    name: &'static str,
    device: Device,
    compressor: &'static str,
    /// Parameters of the module `ubi`.
    ubi: &'static str,
}

const VARIANTS: [Variant; 8] = [
    Variant { name: "large-lzo", device: LARGE_PAGES, compressor: "lzo", ubi: "" },
    Variant { name: "small-zlib", device: SMALL_PAGES, compressor: "zlib", ubi: "" },
    Variant { name: "large-zstd-fastmap", device: LARGE_PAGES, compressor: "zstd", ubi: "fm_autoconvert=1" },
    Variant { name: "small-none", device: SMALL_PAGES, compressor: "none", ubi: "" },
    Variant { name: "large-none", device: LARGE_PAGES, compressor: "none", ubi: "" },
    Variant { name: "small-lzo-fastmap", device: SMALL_PAGES, compressor: "lzo", ubi: "fm_autoconvert=1" },
    Variant { name: "large-zlib", device: LARGE_PAGES, compressor: "zlib", ubi: "" },
    Variant { name: "small-zstd", device: SMALL_PAGES, compressor: "zstd", ubi: "" },
];

/// How much is done on each flash.
#[derive(Clone, Copy, Debug)]
struct Amounts {
    seed: u64,
    churn_mib: u64,
    writes: u64,
}

/// Runs the trial and prints what it saw; an error where something does not hold.
pub fn run(arguments: &[String]) -> Result<bool> {
    let valued = ["--nandkit", "--only", "--seed", "--churn-mib", "--writes"];
    let options = Options::parse(arguments, &[KEEP], &valued, 0)?;
    let variants = chosen(options.text("--only"))?;
    let amounts = Amounts {
        seed: options.number("--seed", 1)?,
        churn_mib: options.number("--churn-mib", 12)?,
        writes: options.number("--writes", 6)?,
    };
    super::test::must_be_root()?;
    let nandkit = Nandkit::find(&options)?;
    Trial::run("ubifs", &options, |trial| {
        for variant in variants {
            judge(trial, &nandkit, variant, amounts).with_context(|| variant.name)?;
        }
        Ok(())
    })
}

/// The variants of these names, or all.
fn chosen(names: Option<&str>) -> Result<Vec<Variant>> {
    let Some(names) = names else { return Ok(VARIANTS.to_vec()) };
    let known: Vec<&str> = VARIANTS.iter().map(|variant| variant.name).collect();
    let find = |name: &str| VARIANTS.iter().find(|variant| variant.name == name).copied();
    let missing = |name: &str| Unusable(format!("--only {name}: there are {}", known.join(", ")));
    names.split(',').map(|name| Ok(find(name).ok_or_else(|| missing(name))?)).collect()
}

/// Lets Linux write one flash, and compares what nandkit reads of each dump.
fn judge(trial: &Trial, nandkit: &Nandkit, variant: Variant, amounts: Amounts) -> Result<()> {
    let place = trial.work.join(variant.name);
    fs::create_dir_all(&place)?;
    let outcome = linux_writes(trial, &place, variant, amounts)?;
    let complaints: Vec<&str> = outcome.log.lines().filter(|line| is_complaint(line)).collect();
    ensure!(complaints.is_empty(), "Linux complains:\n  {}", complaints.join("\n  "));
    let (collected, commits) = counts(&fs::read_to_string(place.join("counts"))?)?;
    ensure!(collected > 0 && commits > 1, "{collected} LEBs collected and {commits} commits: too little was written");
    println!(
        "{}: {collected} LEBs collected, {commits} commits, {:.0} s in the guest",
        variant.name,
        outcome.took.as_secs_f64()
    );
    let made = Manifest::of_file(&place.join("made.tree"))?;
    for snapshot in fs::read_to_string(place.join("snapshots"))?.lines() {
        let linux = Manifest::of_file(&place.join(format!("{snapshot}.linux")))?;
        let before = place.join(format!("{snapshot}.tree"));
        if before.exists() {
            let what = format!("{snapshot}: Linux before the cut / after it");
            Manifest::of_file(&before)?.must_equal(&linux, &what)?;
        }
        if snapshot.starts_with("writes") || snapshot == "emulated" {
            let what = format!("{snapshot}: what was synced before / Linux after the cut");
            made.must_equal(&linux.below("made"), &what)?;
        }
        let replayed =
            read(trial, nandkit, variant.device, &place.join(snapshot), &linux).with_context(|| snapshot.to_owned())?;
        println!("{}, {snapshot}: {} entries, {replayed} nodes replayed", variant.name, linux.len());
        ensure!(replayed > 0 || snapshot != "journal", "the journal is empty: it was committed");
    }
    Ok(())
}

/// One boot. The dumps and Linux's lists are in the directory of the variant then.
fn linux_writes(trial: &Trial, place: &Path, variant: Variant, amounts: Amounts) -> Result<GuestRun> {
    let Variant { name, device, compressor, ubi } = variant;
    let Amounts { seed, churn_mib, writes } = amounts;
    ensure!(place.is_dir(), "no directory for {name}");
    let script = format!(
        "{}\nplace=/share/{name} compr={compressor} seed={seed} mib={churn_mib} writes={writes} percent=85\n\
         cd $place\n{WORK}\nall\n",
        device.appear('a')
    );
    let ubi = format!("ubi {ubi}");
    let guest = Guest::new(&trial.kernel, "ubifs").share(&trial.work).module(ubi.trim()).module("ubifs");
    guest.timeout(TIMEOUT).run(&script)?.success()
}

/// Whether Linux says in this line that something is wrong with a volume.
pub(super) fn is_complaint(line: &str) -> bool {
    ["UBIFS error", "UBIFS warning", "ubi0 error", "ubi0 warning"].iter().any(|words| line.contains(words))
}

/// The hits of the probes of collected LEBs and of commits in a kprobe profile: `name hits misses`.
pub(super) fn counts(profile: &str) -> Result<(u64, u64)> {
    let of = |name: &str| {
        let line = profile.lines().find(|line| line.trim_start().starts_with(name))?;
        line.split_whitespace().nth(1)?.parse().ok()
    };
    of("collected").zip(of("committed")).with_context(|| format!("no kprobe profile: {profile}"))
}

/// Reads a dump with and without OOB; the number of nodes of the journal.
fn read(trial: &Trial, nandkit: &Nandkit, device: Device, dump: &Path, linux: &Manifest) -> Result<u64> {
    let (page, oob) = device.page_bytes().context("NAND has pages")?;
    let bare = dump.with_extension("bare");
    let pages = fs::read(dump)?;
    let pages: Vec<u8> = pages.chunks((page + oob) as usize).flat_map(|raw| &raw[..page as usize]).copied().collect();
    fs::write(&bare, pages)?;
    let mut replayed = BTreeSet::new();
    for (image, what) in [(dump, "with OOB"), (bare.as_path(), "without OOB")] {
        let ours = Manifest::of_directory(&trial.kernel, &extracted(nandkit, image)?)?;
        linux.must_equal(&ours, &format!("{what}: Linux / nandkit"))?;
        fs::remove_dir_all(image.with_extension("out"))?;
        process::output(nandkit.command().arg("check").arg(image)).with_context(|| format!("{what}: check"))?;
        let told = process::output(Command::arg(&mut nandkit.command(), "info").arg(image).arg("--json"))?;
        let told: Value = serde_json::from_str(&told).context("JSON")?;
        replayed.insert(told["volume"]["ubifs"]["replayed_nodes"].as_u64().with_context(|| format!("info: {told}"))?);
    }
    fs::remove_file(bare)?;
    let [replayed] = Vec::from_iter(replayed)[..] else { bail!("`info` differs with and without OOB") };
    Ok(replayed)
}

/// Extracts an image without a word of what is in it.
fn extracted(nandkit: &Nandkit, image: &Path) -> Result<std::path::PathBuf> {
    let to = image.with_extension("out");
    process::output(nandkit.command().arg("extract").arg(image).arg(&to))?;
    Ok(to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_are_chosen_by_name() {
        assert_eq!(chosen(None).unwrap().len(), VARIANTS.len());
        let names: Vec<&str> = chosen(Some("small-none,large-lzo")).unwrap().iter().map(|found| found.name).collect();
        assert_eq!(names, ["small-none", "large-lzo"]);
        assert!(chosen(Some("huge")).unwrap_err().is::<Unusable>());
    }

    #[test]
    fn probes_that_count_nothing_are_noticed() {
        assert_eq!(counts("  collected   64   0\n  committed   53   0\n").unwrap(), (64, 53));
        assert!(counts("  collected   64   0\n").is_err());
    }
}

//! `cargo xtask kernel ubi`: a UBI device that Linux and nandkit change by turns.
//!
//! Linux makes volumes on flash of the kernel's simulator and a tree of files on UBIFS in one, and
//! levels wear at a threshold of two. nandkit changes the dump, OOB and ECC included: it fills,
//! makes, resizes, renames and removes volumes. Linux attaches the result, and must see the same
//! contents and the same files; it changes volumes again, and nandkit must read what Linux sees.
//! No erase counter may fall.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::guest::Guest;
use super::jffs2::Device;
use super::ours::Nandkit;
use super::trial::{KEEP, Trial};
use crate::options::Options;
use crate::process;

/// Longest time of a guest: far more than any takes on a loaded machine.
const TIMEOUT: Duration = Duration::from_secs(900);

/// The commands of the guest.
const WORK: &str = include_str!("guest/ubi.sh");

/// The flash, its name, and where Linux puts volume identifiers: sub-pages, whole pages.
const VARIANTS: [(&str, Device, &str); 3] = [
    ("sub-pages", Device::Nand128k { blocks: 128 }, ""),
    ("pages", Device::Nand128k { blocks: 128 }, "-O 2048"),
    ("small", Device::Nand16k { blocks: 1024 }, ""),
];

/// The changes that nandkit makes, in order. `new` and `more` are files of the host.
const CHANGES: [&[&str]; 7] = [
    &["update", "kernel", "new"],
    &["mkvol", "extra", "300000"],
    &["update", "extra", "more"],
    &["rename", "raw", "blob", "extra", "raw"],
    &["rsvol", "blob", "900000"],
    &["rmvol", "gone"],
    &["mkvol", "signature", "20000", "--static"],
];

/// Runs the trial and prints what it saw; an error where something does not hold.
pub fn run(arguments: &[String]) -> Result<bool> {
    let options = Options::parse(arguments, &[KEEP], &["--nandkit"], 0)?;
    super::test::must_be_root()?;
    let nandkit = Nandkit::find(&options)?;
    Trial::run("ubi", &options, |trial| {
        VARIANTS.iter().try_for_each(|(name, device, how)| {
            let place = trial.work.join(name);
            fs::create_dir_all(&place)?;
            let [first, ours, last] =
                judge(trial, &nandkit, &place, *device, how).with_context(|| (*name).to_owned())?;
            println!("{name}: {first} erases by Linux, {ours} behind nandkit's changes, {last} behind Linux's");
            Ok(())
        })
    })
}

/// The erases in all that the erase counters tell behind each turn.
fn judge(trial: &Trial, nandkit: &Nandkit, place: &Path, device: Device, how: &str) -> Result<[u64; 3]> {
    let boot = |turn: &str| {
        let name = place.file_name().and_then(|name| name.to_str()).context("a name")?;
        let script = format!("{}\nplace=/share/{name} how='{how}'\ncd $place\n{WORK}\n{turn}\n", device.appear('a'));
        let guest = Guest::new(&trial.kernel, "ubi").share(&trial.work).module("ubi").module("ubifs");
        guest.timeout(TIMEOUT).run(&script)?.success()
    };
    boot("first")?;
    let image = place.join("dump");
    must_equal(nandkit, place, "first")?;
    let before = erases(nandkit, &image)?;
    for (name, length) in [("new", 180_001), ("more", 250_000)] {
        let bytes: Vec<u8> = (0..length).map(|at: usize| (at % 251) as u8).collect();
        fs::write(place.join(name), bytes)?;
    }
    for change in CHANGES {
        let [verb, arguments @ ..] = change else { continue };
        let mut command = nandkit.command();
        command.current_dir(place).args(["ubi", verb, "dump"]).args(arguments);
        process::output(&mut command).with_context(|| format!("{change:?}"))?;
    }
    process::output(nandkit.command().arg("check").arg(&image)).context("check")?;
    let after = erases(nandkit, &image)?;
    ensure!(after > before, "no erase counter grew: {before} in all, then {after}");
    fs::copy(&image, place.join("ours"))?;
    boot("second")?;
    must_equal(nandkit, place, "second")?;
    let last = erases(nandkit, &image)?;
    ensure!(last >= after, "erase counters fell: {after} in all, then {last}");
    Ok([before, after, last])
}

/// Compares each volume and each file that Linux saw with what nandkit reads from the dump.
fn must_equal(nandkit: &Nandkit, place: &Path, turn: &str) -> Result<()> {
    let image = place.join("dump");
    let sums = fs::read_to_string(place.join(format!("{turn}.sums")))?;
    let mut count = 0;
    for line in sums.lines() {
        let [sum, bytes, volume, path] = Vec::from_iter(line.split(' '))[..] else { bail!("a line of sums: {line}") };
        let mut command = nandkit.command();
        let read = command.arg("cat").arg(&image).arg(path).args(["--volume", volume]).output()?;
        ensure!(read.status.success(), "{path}: {}", String::from_utf8_lossy(&read.stderr));
        let ours = place.join("content");
        fs::write(&ours, read.stdout.get(..bytes.parse()?).with_context(|| format!("{path} is short"))?)?;
        let told = process::output(Command::new("sha256sum").arg(&ours))?;
        ensure!(told.starts_with(sum), "{turn}: {path} of {volume} differs from what Linux sees");
        count += 1;
    }
    ensure!(count > 3, "{turn}: only {count} contents");
    Ok(())
}

/// The sum of all erase counters, as nandkit tells them.
pub(super) fn erases(nandkit: &Nandkit, image: &Path) -> Result<u64> {
    let told = process::output(nandkit.command().args(["ubi", "info", "--json"]).arg(image))?;
    let told: Value = serde_json::from_str(&told).context("JSON")?;
    let volume = &told["volume"];
    let mean = volume["erases_mean"].as_f64().with_context(|| format!("info: {told}"))?;
    let pebs = volume["pebs"].as_u64().with_context(|| format!("info: {told}"))?;
    Ok((mean * pebs as f64).round() as u64)
}

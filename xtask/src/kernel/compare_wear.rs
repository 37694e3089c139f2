//! `cargo xtask kernel compare-wear`: nandkit's JFFS2 and UBIFS with Linux's victims against what
//! `kernel wear` measured of Linux's own.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::ours::Nandkit;
use super::wear::{FILE_BYTES, UBIFS_SYNC_EVERY, device};
use crate::options::{Options, Unusable};
use crate::process;

/// One run of the kernel a row, as `cargo xtask kernel wear` prints it.
const FIGURES: &str = include_str!("figures.csv");

/// The share by which the mean over all seeds may differ from the kernel's mean: of write
/// amplification and erases, and of the number of blocks that were never erased, in which the
/// kernel's own runs differ more.
fn bounds(fs: &str) -> [f64; 3] {
    if fs == "ubifs" { [0.10, 0.10, 0.15] } else { [0.05, 0.05, 0.10] }
}

/// Bytes of a record of the workload.
const RECORD_BYTES: u64 = 4096;

/// UBIFS as Linux makes it on an empty volume: of 5 % of its LEBs, 12 here, 3 are the log and 9 the
/// journal's buds (fs/ubifs/sb.c, `create_default_filesystem`; LEBs of 129,024 bytes); and a page
/// cache larger than what is written between two syncs.
const UBIFS: &str =
    "fs = { kind = \"ubifs\", journal_size = 1161216 }\nhost = { dirty = \"64M\", cache = \"64M\", sync_ms = 0 }";

/// Setting of a measurement: file system, pattern, device, files, MiB overwritten.
type Setting = (String, String, String, u64, u64);

/// Write amplification, erases per MiB that was overwritten, and blocks that were never erased.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Wear([f64; 3]);

impl Wear {
    fn mean(runs: &[Self]) -> Self {
        Self([0, 1, 2].map(|at| runs.iter().map(|run| run.0[at]).sum::<f64>() / runs.len().max(1) as f64))
    }

    /// By which share each figure differs from the kernel's; for blocks never erased of which the
    /// kernel has none, how many there are.
    fn differs(&self, kernel: &Self) -> [f64; 3] {
        [0, 1, 2].map(|at| {
            let base = if kernel.0[at] > 0.0 { kernel.0[at] } else { 1.0 };
            (self.0[at] - kernel.0[at]) / base
        })
    }

    fn is_near(&self, kernel: &Self, fs: &str) -> bool {
        self.differs(kernel).iter().zip(bounds(fs)).all(|(differs, bound)| differs.abs() <= bound)
    }
}

/// Compares, and prints a row of a table for each setting that the kernel's figures have. Passes
/// where each is near enough.
pub fn run(arguments: &[String]) -> Result<bool> {
    let options =
        Options::parse(arguments, &[], &["--seeds", "--fs", "--pattern", "--device", "--tick-ms", "--nandkit"], 0)?;
    let wanted = |option: &str, value: &str| options.text(option).is_none_or(|text| text == value);
    let figures = figures(FIGURES)?;
    let chosen: Vec<_> = figures
        .iter()
        .filter(|((fs, pattern, device, ..), _)| {
            wanted("--fs", fs) && wanted("--pattern", pattern) && wanted("--device", device)
        })
        .collect();
    if chosen.is_empty() {
        bail!(Unusable(
            "kernel compare-wear: there are no figures of the kernel for that pattern on that device".into()
        ));
    }
    let seeds = options.number("--seeds", 20)?.max(1);
    // By the work; Debian's Linux has 4 ms, in which an emulated machine does more work than the
    // simulated chip.
    let tick_ms = options.number("--tick-ms", 0)?;
    let nandkit = Nandkit::find(&options)?;
    println!(
        "| file system | pattern | device | data MiB | user MiB | runs of Linux | WA | erases per user MiB | never erased | |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    let mut all_near = true;
    for (setting, runs) in chosen {
        let (fs, pattern, device, files, user_mib) = setting;
        let (linux, ours) = (Wear::mean(runs), Wear::mean(&measure(&nandkit, setting, seeds, tick_ms)?));
        let near = ours.is_near(&linux, fs);
        all_near &= near;
        let [wa, erases, never] = ours.differs(&linux);
        let share = |at: usize, differs: f64, digits: usize| match linux.0[at] {
            0.0 => format!("{:.digits$}; {:.digits$}", ours.0[at], linux.0[at]),
            _ => format!("{:.digits$}; {:.digits$} ({:+.1} %)", ours.0[at], linux.0[at], 100.0 * differs),
        };
        println!(
            "| {fs} | {pattern} | {device} | {} | {user_mib} | {} | {} | {} | {} | {} |",
            (files * FILE_BYTES) >> 20,
            runs.len(),
            share(0, wa, 3),
            share(1, erases, 2),
            share(2, never, 1),
            if near { "near" } else { "differs" }
        );
    }
    println!(
        "nandkit, the mean of {seeds} seeds; Linux (nandkit's deviation). Near: at most 5 % in WA and erases and 10 % in blocks never erased of JFFS2, 10 % and 15 % of UBIFS"
    );
    Ok(all_near)
}

/// The kernel's runs by setting.
fn figures(table: &str) -> Result<BTreeMap<Setting, Vec<Wear>>> {
    let mut runs: BTreeMap<Setting, Vec<Wear>> = BTreeMap::new();
    for line in table.lines().skip(1) {
        let read = || -> Option<(Setting, Wear)> {
            let mut fields = line.split(',');
            let mut text = || fields.next().map(str::to_owned);
            let (fs, pattern, device) = (text()?, text()?, text()?);
            let (files, user_mib) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
            let mut figure = || fields.next()?.parse::<f64>().ok();
            let wear = Wear([figure()?, figure()?, figure()?]);
            fields.next().is_none().then_some(((fs, pattern, device, files, user_mib), wear))
        };
        let (setting, wear) = read().with_context(|| format!("no row of the kernel's figures: {line}"))?;
        runs.entry(setting).or_default().push(wear);
    }
    Ok(runs)
}

/// Runs the workload that the kernel had, on the preset of the same chip.
fn measure(
    nandkit: &Nandkit,
    (fs, pattern, name, files, user_mib): &Setting,
    seeds: u64,
    tick_ms: u64,
) -> Result<Vec<Wear>> {
    let chip = device(name).with_context(|| format!("the kernel's figures name the device {name}"))?.chip;
    let spec = process::target_directory()?.join(format!("compare-wear-{}.toml", std::process::id()));
    let operations = (user_mib << 20) / RECORD_BYTES;
    let (stack, sync_every) = match fs.as_str() {
        "ubifs" => (UBIFS.to_owned(), UBIFS_SYNC_EVERY),
        _ => (format!("fs = {{ kind = \"jffs2\", victim = \"jffs2-lists\", tick_ms = {tick_ms} }}"), 0),
    };
    std::fs::write(
        &spec,
        format!(
            "seeds = {seeds}\n[stack]\ndevice = {chip}\n{stack}\n\
             [workload]\nkind = \"overwrite\"\npattern = \"{pattern}\"\nfiles = {files}\nfile_size = {FILE_BYTES}\n\
             record = {RECORD_BYTES}\noperations = {operations}\nsync_every = {sync_every}\n"
        ),
    )?;
    let records = nandkit.run(&spec);
    std::fs::remove_file(&spec)?;
    let records = records?;
    let records = records.as_array().context("nandkit run prints no list of records")?;
    ensure!(records.len() as u64 == seeds, "{} records of {seeds} seeds", records.len());
    records
        .iter()
        .map(|record| {
            let figure = |value: &Value, what: &str| value.as_f64().with_context(|| format!("a record without {what}"));
            let erases = figure(&record["erases"], "erases")?;
            let user = figure(&record["user_bytes_written"], "user_bytes_written")?;
            ensure!(user == (user_mib << 20) as f64, "{user} bytes were overwritten, not {user_mib} MiB");
            let never = figure(&record["erases_per_block"]["never"], "erases_per_block.never")?;
            Ok(Wear([figure(&record["waf"], "waf")?, erases / *user_mib as f64, never]))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_figures_are_read_whole_and_are_of_known_devices() {
        let read = figures(FIGURES).unwrap();
        assert_eq!(read.values().map(Vec::len).sum::<usize>(), FIGURES.lines().count() - 1);
        assert!(read.keys().all(|(_, _, name, ..)| device(name).is_some()));
        assert!(figures("fs,pattern\njffs2,hcf,nandsim-128k,104,256,1.8,14.4").is_err());
        assert!(figures("fs,pattern\njffs2,hcf,nandsim-128k,104,256,1.8,14.4,88,1").is_err());
    }

    #[test]
    fn what_is_too_far_from_the_kernel_is_told() {
        let linux = Wear::mean(&[Wear([1.0, 10.0, 90.0]), Wear([3.0, 30.0, 110.0])]);
        assert_eq!(linux, Wear([2.0, 20.0, 100.0]));
        assert!(Wear([2.09, 19.1, 109.0]).is_near(&linux, "jffs2"));
        assert!(Wear([2.19, 18.1, 114.0]).is_near(&linux, "ubifs"));
        for far in [[2.11, 20.0, 100.0], [2.0, 18.9, 100.0], [2.0, 20.0, 111.0], [2.0, 20.0, 89.0]] {
            assert!(!Wear(far).is_near(&linux, "jffs2"), "{far:?}");
        }
        assert!(!Wear([2.0, 20.0, 1.0]).is_near(&Wear([2.0, 20.0, 0.0]), "jffs2"));
    }
}

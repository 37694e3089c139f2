//! `cargo xtask kernel f2fs-overwrite`: what Linux's own F2FS writes, moves and checkpoints under
//! the pattern workload, beside nandkit's.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::build::{self, Kernel};
use super::f2fs_tools::build_example;
use super::guest::Guest;
use crate::options::{Options, Unusable};
use crate::process;

const PATTERNS: [&str; 5] = ["seq", "rnd", "hcf", "hcc", "hci"];
/// Names of modes, and what the mount takes; the second one also sets ipu_policy to 0, so that
/// nothing is overwritten where it stands.
const MODES: [(&str, &str); 2] = [("lfs", "mode=lfs"), ("ssr", "mode=adaptive")];

/// Which comes first at a sync, the flusher or the program (docs/formats/f2fs-writing.md, "Sync"),
/// and the mode in which the guest's program runs for it: on one processor the flusher begins
/// before the program has asked for the pass that waits, or after that.
const FIRST: [(&str, &str); 2] = [("flusher", "yielding"), ("sync", "pressing")];

const VOLUME_MIB: u64 = 256;
const FILES: u64 = 576;
const USER_MIB: u64 = 512;
const SYNC_EVERY: u64 = 256;

/// Write amplification within this of Linux's, and the other figures within that
/// (docs/design/10-f2fs.md).
const WITHIN: [f64; 2] = [0.10, 0.15];

/// What is counted between the end of the filling and the last sync.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Figures {
    /// Blocks to the main area for each that the user overwrote.
    amplification: f64,
    moved: f64,
    moved_nodes: f64,
    /// Segments of which a log filled the gaps.
    ssr_segments: f64,
    checkpoints: f64,
}

impl Figures {
    const NAMES: [&str; 5] = ["WA", "moved", "moved nodes", "SSR segments", "checkpoints"];

    const fn values(&self) -> [f64; 5] {
        [self.amplification, self.moved, self.moved_nodes, self.ssr_segments, self.checkpoints]
    }
}

/// Measures, and prints a row for each figure. Whether all are within the bounds.
pub fn run(arguments: &[String]) -> Result<bool> {
    let options = Options::parse(arguments, &[], &["--pattern", "--mode", "--first", "--minutes"], 0)?;
    let pattern = options.text("--pattern").unwrap_or("hcf");
    if !PATTERNS.contains(&pattern) {
        bail!(Unusable(format!("--pattern {pattern}: there are {}", PATTERNS.join(", "))));
    }
    let mode = options.text("--mode").unwrap_or("lfs");
    let Some(&(_, mount)) = MODES.iter().find(|(name, _)| *name == mode) else {
        bail!(Unusable(format!("--mode {mode}: there are {}", MODES.map(|(name, _)| name).join(", "))));
    };
    let first = options.text("--first").unwrap_or("flusher");
    let Some(&(_, how)) = FIRST.iter().find(|(name, _)| *name == first) else {
        bail!(Unusable(format!("--first {first}: there are {}", FIRST.map(|(name, _)| name).join(", "))));
    };
    let minutes = options.number("--minutes", 60)?;
    let ours = build_example("overwrite_figures")?;
    let ours = Figures::of_ours(&process::output(Command::new(ours).args([pattern, mode, first]))?)?;
    let kernel = build::build()?;
    let work = kernel.directory.join(format!("f2fs-overwrite-{}", std::process::id()));
    fs::create_dir_all(&work)?;
    let linux = measure(&kernel, &work, (pattern, mode, mount, how), Duration::from_secs(60 * minutes))?;
    fs::remove_dir_all(&work)?;
    println!("| {pattern}, mode {mode}, {first} first | Linux {} | nandkit | ratio |", kernel.version);
    println!("| --- | --- | --- | --- |");
    let mut within = true;
    for (at, name) in Figures::NAMES.iter().enumerate() {
        let (theirs, ours) = (linux.values()[at], ours.values()[at]);
        let bound = WITHIN[usize::from(at > 0)];
        let ratio = if theirs == ours { 1.0 } else { ours / theirs };
        // Of a few blocks or segments no share is asked, nor of the nodes among the blocks that
        // were moved, which the row above has.
        let counts = at == 0 || theirs.max(ours) >= 100.0 && *name != "moved nodes";
        let is_within = !counts || (ratio - 1.0).abs() <= bound;
        within &= is_within;
        let digits = if at == 0 { 3 } else { 0 };
        let told = if is_within { "" } else { " (outside)" };
        println!("| {name} | {theirs:.digits$} | {ours:.digits$} | {ratio:.3}{told} |");
    }
    Ok(within)
}

fn measure(
    kernel: &Kernel,
    work: &Path,
    (pattern, mode, mount, how): (&str, &str, &str, &str),
    timeout: Duration,
) -> Result<Figures> {
    let disk = work.join("disk.img");
    fs::File::create(&disk)?.set_len(VOLUME_MIB << 20)?;
    process::succeeds(Command::new("mkfs.f2fs").arg("-q").arg(&disk))?
        .then_some(())
        .context("mkfs.f2fs did not make a volume")?;
    let policy = if mode == "ssr" { "echo 0 >/sys/fs/f2fs/vda/ipu_policy" } else { "true" };
    let script = format!(
        "mount -t f2fs -o {mount} /dev/vda /mnt\n{policy}\nhelper fill /mnt {FILES}\nsync\n\
         cat /sys/kernel/debug/f2fs/status >/share/before\n\
         helper {how} overwrite /mnt {pattern} {FILES} {USER_MIB} {SYNC_EVERY}\nsync\n\
         cat /sys/kernel/debug/f2fs/status >/share/after\numount /mnt\n"
    );
    let disk = disk.to_str().context("a path that is no text")?;
    let guest = Guest::new(kernel, "f2fs-overwrite").module("f2fs").disk(disk).share(work).timeout(timeout);
    guest.run(&script)?.success()?;
    let status = |name: &str| Status::parse(&fs::read_to_string(work.join(name))?);
    let (before, after) = (status("before")?, status("after")?);
    ensure!(after.blocks > before.blocks, "Linux wrote nothing");
    let operations = (USER_MIB << 20) as f64 / 4096.0;
    let grown = |of: fn(&Status) -> u64| of(&after).saturating_sub(of(&before)) as f64;
    Ok(Figures {
        amplification: grown(|status| status.blocks) / operations,
        moved: grown(|status| status.moved),
        moved_nodes: grown(|status| status.moved_nodes),
        ssr_segments: grown(|status| status.ssr_segments),
        checkpoints: grown(|status| status.checkpoints),
    })
}

/// The figures taken from the file `status` of F2FS in debugfs (debug.c, `stat_show`).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Status {
    blocks: u64,
    ssr_segments: u64,
    checkpoints: u64,
    moved: u64,
    moved_nodes: u64,
}

impl Status {
    fn parse(text: &str) -> Result<Self> {
        let number = |mark: &str| {
            let line = text.lines().map(str::trim_start).find_map(|line| line.strip_prefix(mark));
            let word = line.and_then(|rest| rest.split_whitespace().next());
            word.and_then(|word| word.parse::<u64>().ok()).with_context(|| format!("no '{mark}' in\n{text}"))
        };
        let ssr = text.lines().find(|line| line.starts_with("SSR:")).unwrap_or_default();
        let ssr_segments = ssr.split(" in ").nth(1).and_then(|rest| rest.split(' ').next());
        Ok(Self {
            blocks: number("LFS:")? + number("SSR:")? + number("IPU:")?,
            ssr_segments: ssr_segments.and_then(|word| word.parse().ok()).context("no segments of SSR")?,
            checkpoints: number("CP calls:")?,
            moved: number("Try to move")?,
            moved_nodes: number("- node blocks :")?,
        })
    }
}

impl Figures {
    /// From the line that the example prints last.
    fn of_ours(text: &str) -> Result<Self> {
        let line =
            text.lines().find_map(|line| line.strip_prefix("figures ")).context("the example printed no figures")?;
        let values: Vec<f64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
        let &[amplification, moved, moved_nodes, ssr_segments, checkpoints] = values.as_slice() else {
            bail!("the example printed '{line}', not five figures");
        };
        Ok(Self { amplification, moved, moved_nodes, ssr_segments, checkpoints })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_of_linux_is_read() {
        let text = "CP calls: 1637 (BG: 0)\n  - cp blocks : 6042\nGC calls: 1880 (BG: 0)\nTry to move 510288 blocks (BG: 0)\n  - data blocks : 265936 (0)\n  \
                    - node blocks : 244352 (0)\nIPU: 1 blocks\nSSR: 20 blocks in 3 segments\nLFS: 1012397 blocks in 1976 segments\n";
        let status = Status::parse(text).unwrap();
        let expected =
            Status { blocks: 1_012_418, ssr_segments: 3, checkpoints: 1637, moved: 510_288, moved_nodes: 244_352 };
        assert_eq!(status, expected);
        assert!(Status::parse("CP calls: 1\n").is_err());
    }

    #[test]
    fn figures_of_ours_are_five() {
        assert_eq!(Figures::of_ours("x\nfigures 1.5 2 3 4 5\n").unwrap().values(), [1.5, 2.0, 3.0, 4.0, 5.0]);
        assert!(Figures::of_ours("figures 1 2\n").is_err());
    }

    #[test]
    fn what_cannot_be_measured_is_refused() {
        for words in [["--pattern", "cold"], ["--mode", "default"], ["--first", "nobody"]] {
            assert!(run(&words.map(str::to_owned)).unwrap_err().is::<Unusable>(), "{words:?}");
        }
    }
}

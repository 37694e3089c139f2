//! `cargo xtask kernel ubifs-turns`: a volume that nandkit makes goes from Linux to nandkit and
//! back, and each writes several times what is free, so that both collect. After each turn the
//! other finds the tree as it was left, Linux with all of its own checks on, and no erase counter
//! has fallen.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::guest::Guest;
use super::jffs2::Device;
use super::manifest::Manifest;
use super::ours::Nandkit;
use super::trial::{KEEP, Trial};
use super::ubi::erases;
use super::ubifs::{counts, is_complaint};
use crate::options::Options;
use crate::process;

/// Longest time of a guest: far more than any takes on a loaded machine.
const TIMEOUT: Duration = Duration::from_secs(2400);

/// The commands of the guest.
const WORK: &str = include_str!("guest/ubifs_turns.sh");

/// A flash, how Linux attaches UBI on it, and the words by which `nandkit mkfs ubi` makes an image
/// for it.
struct Shape {
    name: &'static str,
    device: Device,
    attached: &'static str,
    made: &'static str,
}

/// NAND with pages of 2048 bytes (UBI's headers in sub-pages and in pages) and of 512, and flash
/// that takes single bytes.
const SHAPES: [Shape; 4] = [
    Shape {
        name: "sub-pages",
        device: Device::Nand128k { blocks: 128 },
        attached: "-b 5 -O 512",
        made: "-m 2048 -p 128K -s 512 -c 128 -x zlib",
    },
    Shape {
        name: "pages",
        device: Device::Nand128k { blocks: 128 },
        attached: "-b 5 -O 2048",
        made: "-m 2048 -p 128K -c 128 -x lzo",
    },
    Shape {
        name: "small",
        device: Device::Nand16k { blocks: 1024 },
        attached: "-b 5 -O 512",
        made: "-m 512 -p 16K -c 1024 -x none",
    },
    Shape {
        name: "bytes",
        device: Device::Nor { erase_bytes: 64 << 10, blocks: 256 },
        attached: "",
        made: "-m 1 -p 64K -c 256 -x zstd",
    },
];

/// Runs the trial and prints what it saw; an error where something does not hold.
pub fn run(arguments: &[String]) -> Result<bool> {
    let options = Options::parse(arguments, &[KEEP], &["--seed", "--mib", "--nandkit", "--only"], 0)?;
    super::test::must_be_root()?;
    let nandkit = Nandkit::find(&options)?;
    let (seed, mib) = (options.number("--seed", 1)?, options.number("--mib", 60)?);
    Trial::run("ubifs-turns", &options, |trial| {
        let tree = trial.work.join("tree");
        fs::create_dir_all(&tree)?;
        let mut helper = Command::new(trial.kernel.helper());
        process::output(helper.arg("tree").arg(&tree).args([&seed.to_string(), "4"]))?;
        let wanted = |shape: &&Shape| options.text("--only").is_none_or(|only| only == shape.name);
        SHAPES.iter().filter(wanted).try_for_each(|shape| {
            let place = trial.work.join(shape.name);
            fs::create_dir_all(&place)?;
            let turns = Turns { trial, nandkit: &nandkit, shape, image: place.join("dump"), place, seed, mib };
            turns.take(&tree).with_context(|| shape.name.to_owned())
        })
    })
}

/// The turns on one flash. `image` is what the flash holds between them.
struct Turns<'a> {
    trial: &'a Trial,
    nandkit: &'a Nandkit,
    shape: &'a Shape,
    place: PathBuf,
    image: PathBuf,
    seed: u64,
    mib: u64,
}

impl Turns<'_> {
    fn take(&self, tree: &Path) -> Result<()> {
        let mut mkfs = self.nandkit.command();
        mkfs.args(["mkfs", "ubi", "--volume", "files", "--from"]).arg(tree);
        process::output(mkfs.args(self.shape.made.split(' ')).arg(&self.image))?;
        let made = Manifest::of_directory(&self.trial.kernel, tree)?.without_root();
        let mut worn = 0;
        let mut left = None;
        for (turn, mib) in [("first", self.mib), ("second", self.mib), ("last", 0)] {
            let collected = self.linux_writes(turn, mib)?;
            let found = self.listed(&format!("{turn}.found"))?.without_root();
            let before = left.as_ref().unwrap_or(&made);
            before.must_equal(&found, &format!("{turn}: as it was left / Linux"))?;
            let by_linux = self.grown(&mut worn)?;
            self.extracted()?
                .must_equal(&self.listed(&format!("{turn}.left"))?, &format!("{turn}: nandkit / Linux"))?;
            println!(
                "{}, {turn} turn: {} entries; Linux: {collected}, {by_linux} erases",
                self.shape.name,
                found.len()
            );
            if mib > 0 {
                left = Some(self.nandkit_writes()?.without_root());
                println!("{}, {turn} turn: nandkit: {} erases", self.shape.name, self.grown(&mut worn)?);
            }
        }
        Ok(())
    }

    /// Linux lists what is on the flash, writes until its collector has worked, and lists it again;
    /// its collections and commits in words.
    fn linux_writes(&self, turn: &str, mib: u64) -> Result<String> {
        let Shape { name, device, attached, .. } = self.shape;
        let is_nor = matches!(device, Device::Nor { .. });
        let (load, dump) = match (is_nor, turn) {
            (true, _) => ("", ""),
            (false, "first") => (
                "ubiformat ${how#-b 5} -q -y -f dump /dev/mtd0",
                "nanddump --quiet --bb=dumpbad --noecc --oob --file=/run/dump /dev/mtd0; cp /run/dump dump",
            ),
            (false, _) => (
                "flash_erase --quiet /dev/mtd0 0 0; nandwrite --quiet --noecc --oob /dev/mtd0 dump",
                "nanddump --quiet --bb=dumpbad --noecc --oob --file=/run/dump /dev/mtd0; cp /run/dump dump",
            ),
        };
        let script = format!(
            "{}\nhow='{attached}' turn={turn} seed={} mib={mib}\ncd /share/{name}\n{load}\n{WORK}\ntake_turn\n{dump}\n",
            device.appear('a'),
            self.seed
        );
        let mut guest = Guest::new(&self.trial.kernel, "ubifs-turns").share(&self.trial.work);
        guest = guest.module("ubi").module("ubifs").timeout(TIMEOUT);
        if is_nor {
            // What the image lacks is erased flash.
            let mut bytes = fs::read(&self.image)?;
            bytes.resize(usize::try_from(device.bytes())?, 0xFF);
            fs::write(&self.image, bytes)?;
            guest = guest.disk(&self.image.to_string_lossy());
        }
        let outcome = guest.run(&script)?.success()?;
        let complaints: Vec<&str> = outcome.log.lines().filter(|line| is_complaint(line)).collect();
        ensure!(complaints.is_empty(), "Linux complains:\n  {}", complaints.join("\n  "));
        let (collected, commits) = counts(&fs::read_to_string(self.place.join(format!("{turn}.counts")))?)?;
        ensure!(mib == 0 || collected > 0, "Linux collected nothing: too little was written");
        Ok(format!("{collected} LEBs collected, {commits} commits"))
    }

    /// nandkit mounts the dump, and the same program writes; the tree then.
    fn nandkit_writes(&self) -> Result<Manifest> {
        let mount = self.place.join("mnt");
        fs::create_dir_all(&mount)?;
        process::output(self.nandkit.command().arg("mount").arg(&self.image).arg(&mount).arg("--rw"))?;
        let mut helper = Command::new(self.trial.kernel.helper());
        helper.arg("churn").arg(&mount).args([(self.seed + 1).to_string(), "90".into(), self.mib.to_string()]);
        let churned = process::output(&mut helper);
        process::output(self.nandkit.command().arg("umount").arg(&mount))?;
        churned?;
        process::output(self.nandkit.command().arg("check").arg(&self.image))?;
        self.extracted()
    }

    fn extracted(&self) -> Result<Manifest> {
        let to = self.place.join("out");
        process::output(self.nandkit.command().arg("extract").arg(&self.image).arg(&to))?;
        let found = Manifest::of_directory(&self.trial.kernel, &to)?;
        fs::remove_dir_all(&to)?;
        Ok(found)
    }

    fn listed(&self, name: &str) -> Result<Manifest> {
        Manifest::of_file(&self.place.join(name))
    }

    /// By how much the erase counters grew in all; none may fall.
    fn grown(&self, worn: &mut u64) -> Result<u64> {
        let now = erases(self.nandkit, &self.image)?;
        ensure!(now >= *worn, "erase counters fell: {worn} in all, then {now}");
        Ok(now - std::mem::replace(worn, now))
    }
}

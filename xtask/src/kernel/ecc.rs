//! `cargo xtask kernel ecc`: dumps with ECC between nandkit and Linux's software codes on nandsim.
//!
//! Linux reads nandkit's dumps without a wrong bit; it corrects and counts flipped bits as nandkit
//! does. nandkit finds the layout of Linux's dumps, reads them, and corrects them.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::guest::Guest;
use super::jffs2::Device;
use super::manifest::Manifest;
use super::ours::{Made, Nandkit};
use super::trial::{KEEP, Trial};
use crate::options::Options;
use crate::process;

/// Name, flash, what nandsim is told besides, nandkit's layout, and the bits that the code
/// corrects.
const CODES: [(&str, Device, &str, &str, usize); 4] = [
    ("small", Device::Nand16k { blocks: 256 }, "", "linux-hamming-512-16", 1),
    ("hamming", Device::Nand128k { blocks: 64 }, "", "linux-hamming-2048-64", 1),
    ("bch4", Device::Nand128k { blocks: 64 }, "bch=4", "linux-bch4-2048-64", 4),
    ("bch8", Device::Nand128k { blocks: 64 }, "bch=8", "linux-bch8-2048-64", 8),
];

const TIMEOUT: Duration = Duration::from_secs(1200);

/// One page in this many gets as many wrong bits as the code corrects.
const FLIPPED_EVERY: usize = 7;

/// What Linux does with the dumps of one code, in its directory.
const WORK: &str = r#"
load() {
    flash_erase --quiet /dev/mtd0 0 0
    cp $1 /run/image
    nandwrite --quiet --noecc --oob /dev/mtd0 /run/image
    before=$(cat /sys/class/mtd/mtd0/corrected_bits) failed=$(cat /sys/class/mtd/mtd0/ecc_failures)
    nanddump --quiet --bb=dumpbad --omitoob --file=/run/data /dev/mtd0
    echo $(($(cat /sys/class/mtd/mtd0/corrected_bits) - before)) $(($(cat /sys/class/mtd/mtd0/ecc_failures) - failed)) >$1.counts
    cp /run/data $1.data
}
load ours
mount -t jffs2 mtd0 /mnt
helper manifest /mnt >ours.tree
umount /mnt
load flipped
flash_erase --quiet /dev/mtd0 0 0
mount -t jffs2 mtd0 /mnt
helper churn /mnt 7 40 6
sync
helper manifest /mnt >linux.tree
umount /mnt
nanddump --quiet --bb=dumpbad --noecc --oob --file=/run/data /dev/mtd0
cp /run/data linux
nanddump --quiet --bb=dumpbad --omitoob --file=/run/data /dev/mtd0
cp /run/data linux.data
rm /run/data /run/image
"#;

/// Runs the trial; an error where something does not hold.
pub fn run(arguments: &[String]) -> Result<bool> {
    let options = Options::parse(arguments, &[KEEP], &["--nandkit"], 0)?;
    let nandkit = Nandkit::find(&options)?;
    Trial::run("ecc", &options, |trial| both_ways(trial, &nandkit))
}

fn both_ways(trial: &Trial, nandkit: &Nandkit) -> Result<()> {
    let tree = trial.work.join("tree");
    fs::create_dir_all(tree.join("d"))?;
    for (number, length) in [(1_u32, 300_000_u32), (2, 70_000), (3, 1)] {
        let noise: Vec<u8> = (0..length).map(|at| (at.wrapping_mul(2_654_435_761) >> (10 + number)) as u8).collect();
        fs::write(tree.join(format!("d/file{number}")), noise)?;
    }
    let mut script = String::new();
    for (name, device, parameters, layout, correctable) in CODES {
        prepare(trial, nandkit, &tree, (name, device, layout, correctable))?;
        let begin = format!("cd /share/{name}\n{} {parameters}\n", device.appear('a'));
        script += &format!("{begin}{WORK}cd /\n{}\necho {name} is done\n", device.disappear());
    }
    let guest = Guest::new(&trial.kernel, "ecc").share(&trial.work).module("jffs2").timeout(TIMEOUT);
    let outcome = guest.run(&script)?.success()?;
    for line in outcome.log.lines().filter(|line| line.contains("ECC") || line.contains("jffs2: ")) {
        println!("{line}");
    }
    for (name, device, _, layout, _) in CODES {
        compare(trial, nandkit, name, device, layout).with_context(|| name.to_owned())?;
        println!("{name}: {layout} holds in both directions");
    }
    Ok(())
}

/// A dump with ECC of the tree, and the same with wrong bits.
fn prepare(
    trial: &Trial,
    nandkit: &Nandkit,
    tree: &Path,
    (name, device, layout, correctable): (&str, Device, &str, usize),
) -> Result<()> {
    let place = trial.work.join(name);
    fs::create_dir_all(&place)?;
    let plain = place.join("plain");
    nandkit.mkfs(tree, device, Made { compress: "none", oob: true, summaries: false }, &plain)?;
    let mut export = nandkit.command();
    export.arg("export").arg(&plain).arg(place.join("ours")).args(["--for", "programmer", "--oob-layout", layout]);
    process::output(&mut export)?;
    let mut dump = fs::read(place.join("ours"))?;
    let (page, oob) = device.page_bytes().context("NAND has pages")?;
    let (page, stored) = (page as usize, (page + oob) as usize);
    let mut flipped = 0;
    for raw in dump.chunks_mut(stored).step_by(FLIPPED_EVERY) {
        if raw.iter().take(page).all(|byte| *byte == 0xFF) {
            continue;
        }
        for bit in 0..correctable {
            if let Some(byte) = raw.get_mut(page / 2 + 11 * bit) {
                *byte ^= 1 << (bit % 8);
                flipped += 1;
            }
        }
    }
    fs::write(place.join("flipped"), dump)?;
    Ok(fs::write(place.join("flipped.bits"), flipped.to_string())?)
}

fn compare(trial: &Trial, nandkit: &Nandkit, name: &str, device: Device, layout: &str) -> Result<()> {
    let place = trial.work.join(name);
    let read = |file: &str| fs::read(place.join(file)).with_context(|| file.to_owned());
    let text = |file: &str| -> Result<String> { Ok(fs::read_to_string(place.join(file))?.trim().to_owned()) };
    let (page, oob) = device.page_bytes().context("NAND has pages")?;
    let data: Vec<u8> =
        read("plain")?.chunks((page + oob) as usize).flat_map(|raw| &raw[..page as usize]).copied().collect();
    ensure!(read("ours.data")? == data, "Linux reads other data than nandkit wrote");
    ensure!(text("ours.counts")? == "0 0", "Linux counts corrected and lost: {}", text("ours.counts")?);
    let flipped = text("flipped.bits")?;
    ensure!(read("flipped.data")? == data, "Linux corrects to other data");
    ensure!(
        text("flipped.counts")? == format!("{flipped} 0"),
        "{flipped} wrong bits, Linux: {}",
        text("flipped.counts")?
    );
    let ours = info(nandkit, &place.join("flipped"))?;
    let counted: u64 = flipped.parse()?;
    ensure!(ours["ecc"]["layout"] == layout && ours["ecc"]["bits_corrected"] == counted, "nandkit: {ours}");

    let linux = info(nandkit, &place.join("linux"))?;
    let counted = (&linux["ecc"]["bits_corrected"], &linux["ecc"]["codewords_uncorrectable"]);
    ensure!(linux["ecc"]["layout"] == layout && counted == (&0.into(), &0.into()), "of Linux's dump: {linux}");
    // The data of Linux's dump, out of it by its layout.
    let mut export = nandkit.command();
    // All of the flash: the volume that nodes prove begins behind the blocks that are blank.
    let size = device.bytes().to_string();
    let all = ["--offset", "0", "--size", &size];
    export.args(["export", "--for", "nor"]).args(all).arg(place.join("linux")).arg(place.join("exported"));
    process::output(&mut export)?;
    ensure!(read("exported")? == read("linux.data")?, "nandkit reads other data than Linux wrote");
    let mut extract = nandkit.command();
    let got = place.join("got");
    extract.arg("extract").arg(place.join("linux")).arg(&got);
    process::output(&mut extract)?;
    let there = Manifest::of_file(&place.join("linux.tree"))?.without_root();
    there.must_equal(&Manifest::of_directory(&trial.kernel, &got)?.without_root(), "Linux's tree / nandkit's")
}

fn info(nandkit: &Nandkit, image: &Path) -> Result<Value> {
    let told = process::output(Command::arg(&mut nandkit.command(), "info").arg(image).arg("--json"))?;
    serde_json::from_str(&told).context("JSON")
}

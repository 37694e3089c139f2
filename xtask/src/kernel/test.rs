//! `cargo xtask kernel test`: the short set that shows in both directions that Linux and nandkit mean the same.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::build::{self, Kernel};
use super::jffs2::{self, Churn, Device, Done, Job};
use super::manifest::Manifest;
use crate::options::Options;
use crate::process;

/// Everything takes less than this on a loaded machine; without load a tenth of it.
const TIMEOUT: Duration = Duration::from_secs(600);

/// Runs the set and prints what it saw; false where something does not hold.
pub fn run(arguments: &[String]) -> Result<bool> {
    let options = Options::parse(arguments, &["--keep", "--verbose"], &["--seed", "--churn-mib"], 0)?;
    let start = Instant::now();
    let kernel = build::build()?;
    let work = kernel.directory.join(format!("test-{}", std::process::id()));
    fs::create_dir_all(&work)?;
    let seed = options.number("--seed", 1)?;
    let mib = options.number("--churn-mib", 16)?;
    harness(&kernel, &work, seed, mib, options.flag("--verbose"))
        .with_context(|| format!("files in {}", work.display()))?;
    if options.flag("--keep") {
        println!("files in {}", work.display());
    } else {
        fs::remove_dir_all(&work)?;
    }
    println!("kernel test: passed in {:.0} s", start.elapsed().as_secs_f64());
    Ok(true)
}

/// The devices of the set: 4 MiB each.
fn devices() -> [(&'static str, Device); 4] {
    [
        ("nand-128k", Device::Nand128k { blocks: 32 }),
        ("nand-16k", Device::Nand16k { blocks: 256 }),
        ("nor-64k", Device::Nor { erase_bytes: 64 << 10, blocks: 64 }),
        ("nor-8k", Device::Nor { erase_bytes: 8 << 10, blocks: 512 }),
    ]
}

/// mkfs.jffs2 writes, Linux reads, changes, and reads again.
fn harness(kernel: &Kernel, work: &Path, seed: u64, mib: u64, verbose: bool) -> Result<()> {
    let tree = make_tree(kernel, &work.join("tree"), seed)?;
    let expected = Manifest::of_directory(kernel, &tree)?.without_root();
    let mut jobs = Vec::new();
    for (name, device) in devices() {
        let image = jffs2::mkfs(&tree, device, &work.join(format!("{name}.mkfs")))?;
        let churn = Some(Churn { seed, percent: 85, mib });
        jobs.push(Job {
            name: name.to_owned(),
            device,
            image: Some(image),
            options: String::new(),
            churn,
            dump_oob: true,
        });
    }
    let changed = carry_out(kernel, &work.join("changed"), &jobs, verbose)?;
    for (job, done) in jobs.iter_mut().zip(&changed) {
        done.must_be_sound(job)?;
        expected.must_equal(&done.mounted.clone().without_root(), &format!("{}: tree / mounted", job.name))?;
        // What Linux wrote goes back into Linux: on NAND with the OOB, so that loading and dumping that are tried as well.
        job.image = Some(done.image.clone());
        job.churn = None;
    }
    let again = carry_out(kernel, &work.join("again"), &jobs, verbose)?;
    for ((job, first), second) in jobs.iter().zip(&changed).zip(&again) {
        second.must_be_sound(job)?;
        let remounted = first.remounted.as_ref().context("a job without changes")?;
        remounted.must_equal(&second.mounted, &format!("{}: remounted / in another guest", job.name))?;
    }
    Ok(())
}

fn carry_out(kernel: &Kernel, work: &Path, jobs: &[Job], verbose: bool) -> Result<Vec<Done>> {
    let (done, outcome) = jffs2::run(kernel, work, jobs, TIMEOUT)?;
    println!("{} jobs in {:.1} s", jobs.len(), outcome.took.as_secs_f64());
    for (job, done) in jobs.iter().zip(&done) {
        report(job, done);
        if verbose {
            print!("{}", done.output);
        }
    }
    Ok(done)
}

fn report(job: &Job, done: &Done) {
    let entries = done.mounted.len();
    let after = done.remounted.as_ref().map_or(0, Manifest::len);
    println!(
        "{:<10} {entries} entries, after changes {after}; {} erases of {} blocks",
        job.name,
        done.erases,
        job.device.blocks()
    );
    for line in &done.complaints {
        println!("{:<10} {line}", "");
    }
}

/// A tree with every kind of entry. Owners, devices and the like take root.
fn make_tree(kernel: &Kernel, to: &PathBuf, seed: u64) -> Result<PathBuf> {
    if process::output(Command::new("id").arg("-u"))?.trim() != "0" {
        bail!("only root can make device nodes and give files away: run this as root");
    }
    fs::create_dir_all(to)?;
    process::output(Command::new(kernel.helper()).arg("tree").arg(to).args([&seed.to_string(), "1"]))?;
    Ok(to.clone())
}

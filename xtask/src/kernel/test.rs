//! `cargo xtask kernel test`: the short set of trials that shows in both directions that Linux and
//! nandkit agree.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::jffs2::{self, Churn, Device, Done, Job};
use super::manifest::Manifest;
use super::ours::{Made, Nandkit};
use super::trial::{KEEP, Trial};
use super::{cuts, third_leg};
use crate::options::{Options, Unusable};
use crate::process;

/// Longest time of a guest: far more than any takes on a loaded machine.
const TIMEOUT: Duration = Duration::from_secs(1500);

/// Images after power cuts that are compared with `--all`.
const CUT_IMAGES: u64 = 50;

/// The devices' images are compressed in turn.
const COMPRESSIONS: [&str; 4] = ["zlib,rtime", "lzo", "rtime", "none"];

/// Name, flash, whether nandkit's image for it has the OOB, and whether it has summaries.
type Variant = (&'static str, Device, bool, bool);

/// A run of the set.
#[derive(Debug)]
struct Set<'a> {
    trial: &'a Trial,
    seed: u64,
    churn_mib: u64,
    devices: Vec<Variant>,
    verbose: bool,
}

/// Runs the set and prints what it saw; an error where something does not hold.
pub fn run(arguments: &[String]) -> Result<bool> {
    let flags = ["--all", KEEP, "--verbose", "--mkfs-jffs2"];
    let options = Options::parse(arguments, &flags, &["--seed", "--churn-mib", "--nandkit", "--devices"], 0)?;
    must_be_root()?;
    Trial::run("test", &options, |trial| {
        // Images of other programs show whether the guest or nandkit is at fault where something
        // differs.
        let nandkit = if options.flag("--mkfs-jffs2") { None } else { Some(Nandkit::find(&options)?) };
        let set = Set {
            trial,
            seed: options.number("--seed", 1)?,
            churn_mib: options.number("--churn-mib", 12)?,
            devices: match options.text("--devices") {
                Some(names) => named(names)?,
                None => devices(options.flag("--all")),
            },
            verbose: options.flag("--verbose"),
        };
        set.run(nandkit.as_ref())?;
        if let Some(nandkit) = nandkit.filter(|_| options.flag("--all")) {
            cuts::compare(&trial.kernel, &nandkit, &trial.work.join("cuts"), CUT_IMAGES, set.seed)?;
        }
        Ok(())
    })
}

/// The devices of the set, 4 MiB each: NAND and NOR, and with `--all` other geometries of both, and
/// other kinds of images.
fn devices(all: bool) -> Vec<Variant> {
    let nand = Device::Nand128k { blocks: 32 };
    let nor = |kib: u32| Device::Nor { erase_bytes: kib << 10, blocks: 4096 / kib };
    let small_pages = Device::Nand16k { blocks: 256 };
    let mut devices = vec![("nand-128k", nand, false, false), ("nor-64k", nor(64), false, false)];
    if all {
        devices.extend([
            ("nand-16k", small_pages, false, false),
            ("nor-8k", nor(8), false, false),
            ("nor-4k", nor(4), false, false),
            ("nor-128k", nor(128), false, false),
            ("nand-128k-oob", nand, true, true),
            ("nand-16k-oob", small_pages, true, false),
            ("nor-16k-summaries", nor(16), false, true),
        ]);
    }
    devices
}

/// These devices of the whole set.
fn named(names: &str) -> Result<Vec<Variant>> {
    let all = devices(true);
    let find = |name: &str| all.iter().find(|(known, ..)| *known == name).copied();
    let known: Vec<&str> = all.iter().map(|(name, ..)| *name).collect();
    let missing = |name: &str| Unusable(format!("--devices {name}: there are {}", known.join(", ")));
    names.split(',').map(|name| Ok(find(name).ok_or_else(|| missing(name))?)).collect()
}

impl Set<'_> {
    /// Images of one tree go into Linux; what Linux makes of them comes back out.
    fn run(&self, ours: Option<&Nandkit>) -> Result<()> {
        let tree = self.make_tree()?;
        let expected = Manifest::of_directory(&self.trial.kernel, &tree)?.without_root();
        let mut jobs = Vec::new();
        for (number, &(name, device, oob, summaries)) in self.devices.iter().enumerate() {
            let made = Made { compress: COMPRESSIONS[number % COMPRESSIONS.len()], oob, summaries };
            let (maker, image) = match ours {
                Some(nandkit) => {
                    ("nandkit", Some(nandkit.mkfs(&tree, device, made, &self.trial.work.join(format!("{name}.ours")))?))
                }
                None if device.erase_bytes() < jffs2::MKFS_LEAST_ERASE_BYTES => ("empty", None),
                None => {
                    ("mkfs.jffs2", Some(jffs2::mkfs(&tree, device, &self.trial.work.join(format!("{name}.mkfs")))?))
                }
            };
            jobs.push(Job {
                name: format!("{name}, {maker}"),
                device,
                image,
                options: String::new(),
                churn: Some(Churn { seed: self.seed, percent: 85, mib: self.churn_mib }),
                dump_oob: true,
            });
        }
        let changed = self.boot("changed", &jobs)?;
        for (job, done) in jobs.iter().zip(&changed) {
            done.ensure_whole(job)?;
            let Some(image) = &job.image else { continue };
            if job.device.page_bytes().is_some() && image.with_oob != (done.mount_erases == 0) {
                // Blocks without cleanmarkers are erased once more, and those with them are not.
                bail!("{}: Linux erased {} blocks when it mounted the image", job.name, done.mount_erases);
            }
            let what = format!("{}: tree / mounted", job.name);
            let mounted = done.mounted.clone().without_root();
            match ours {
                Some(_) => expected.must_equal(&mounted, &what)?,
                None => {
                    expected.clone().without_directory_times().must_equal(&mounted.without_directory_times(), &what)?
                }
            }
        }
        match ours {
            Some(nandkit) => {
                self.read_back(nandkit, &jobs, &changed)?;
                self.third_leg(nandkit, jobs, &changed, (&tree, &expected))
            }
            None => self.second_guest(jobs, &changed),
        }
    }

    /// nandkit reads what Linux wrote.
    fn read_back(&self, nandkit: &Nandkit, jobs: &[Job], changed: &[Done]) -> Result<()> {
        for (number, (job, done)) in jobs.iter().zip(changed).enumerate() {
            let to = self.trial.work.join(format!("extracted-{number}"));
            let extracted = nandkit.extract(&self.trial.kernel, job.device, &done.image, &to)?;
            let remounted = done.remounted.clone().context("a job without changes")?.without_root();
            remounted.must_equal(&extracted.without_root(), &format!("{}: Linux / nandkit", job.name))?;
        }
        Ok(())
    }

    /// nandkit writes into what Linux wrote, and Linux mounts it once more.
    fn third_leg(
        &self,
        nandkit: &Nandkit,
        mut jobs: Vec<Job>,
        changed: &[Done],
        (tree, expected): (&Path, &Manifest),
    ) -> Result<()> {
        let mut listings = Vec::new();
        for (number, (job, done)) in jobs.iter_mut().zip(changed).enumerate() {
            let extracted = self.trial.work.join(format!("extracted-{number}"));
            let written = third_leg::change(nandkit, job.device, &done.image, &extracted, tree)
                .with_context(|| format!("{}: nandkit changes what Linux left", job.name))?;
            listings.push(third_leg::listing(nandkit, &self.trial.kernel, job.device, &written, expected)?);
            println!(
                "{}: {} commands, {} KiB written again and again into {} KiB",
                job.name,
                written.commands,
                written.put_bytes >> 10,
                written.free_bytes >> 10
            );
            (job.image, job.churn) = (Some(written.image), None);
        }
        let again = self.boot("third", &jobs)?;
        for ((job, ours), done) in jobs.iter().zip(listings).zip(&again) {
            done.ensure_whole(job)?;
            let linux = done.mounted.clone().without_root();
            linux.must_equal(&ours.without_root(), &format!("{}, changed by nandkit: Linux / nandkit", job.name))?;
        }
        Ok(())
    }

    /// What Linux wrote goes into Linux: on NAND with the OOB, so that dumping and loading that are
    /// tried.
    fn second_guest(&self, mut jobs: Vec<Job>, changed: &[Done]) -> Result<()> {
        for (job, done) in jobs.iter_mut().zip(changed) {
            job.image = Some(done.image.clone());
            job.churn = None;
        }
        let again = self.boot("again", &jobs)?;
        for ((job, first), second) in jobs.iter().zip(changed).zip(&again) {
            second.ensure_whole(job)?;
            let remounted = first.remounted.as_ref().context("a job without changes")?;
            remounted.must_equal(&second.mounted, &format!("{}: remounted / in another guest", job.name))?;
        }
        Ok(())
    }

    fn boot(&self, name: &str, jobs: &[Job]) -> Result<Vec<Done>> {
        let (done, outcome) = jffs2::run(&self.trial.kernel, &self.trial.work.join(name), jobs, TIMEOUT)?;
        for (job, done) in jobs.iter().zip(&done) {
            let (entries, blocks) = (done.mounted.len(), job.device.blocks());
            match &done.remounted {
                None => println!("{}: {entries} entries", job.name),
                Some(after) => {
                    println!(
                        "{}: {entries} entries, {} after changes; {} erases of {blocks} blocks",
                        job.name,
                        after.len(),
                        done.erases
                    );
                }
            }
            if self.verbose {
                print!("{}", done.output);
            }
        }
        println!("one boot, {} jobs: {:.1} s", jobs.len(), outcome.took.as_secs_f64());
        Ok(done)
    }

    /// A tree with every kind of entry.
    fn make_tree(&self) -> Result<PathBuf> {
        let tree = self.trial.work.join("tree");
        fs::create_dir_all(&tree)?;
        let mut helper = Command::new(self.trial.kernel.helper());
        process::output(helper.arg("tree").arg(&tree).args([&self.seed.to_string(), "1"]))?;
        Ok(tree)
    }
}

/// An error where this is not run as root.
pub fn must_be_root() -> Result<()> {
    if process::output(Command::new("id").arg("-u"))?.trim() != "0" {
        bail!(
            "only root can make device nodes and give files away, which the trees of the trials need: run this as root"
        );
    }
    Ok(())
}

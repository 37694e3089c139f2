//! Trials of JFFS2 images in Linux: it mounts them, lists and changes them, and dumps them.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::build::Kernel;
use super::guest::{Guest, GuestRun};
use super::manifest::Manifest;

/// A flash of the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// NAND simulated by the kernel: 128 KiB blocks, 2 KiB pages, 64 bytes of OOB.
    Nand128k {
        /// The blocks of the partition, at most 2048.
        blocks: u32,
    },
    /// NAND simulated by the kernel: 16 KiB blocks, 512-byte pages, 16 bytes of OOB.
    Nand16k {
        /// The blocks of the partition, at most 2048.
        blocks: u32,
    },
    /// A raw file of the host as NOR flash, written a byte at a time and in place.
    Nor {
        /// The erase block's length in bytes.
        erase_bytes: u32,
        /// The number of erase blocks.
        blocks: u32,
    },
}

impl Device {
    /// The erase block's length in bytes.
    pub fn erase_bytes(self) -> u32 {
        match self {
            Self::Nand128k { .. } => 128 << 10,
            Self::Nand16k { .. } => 16 << 10,
            Self::Nor { erase_bytes, .. } => erase_bytes,
        }
    }

    /// The number of erase blocks.
    pub fn blocks(self) -> u32 {
        match self {
            Self::Nand128k { blocks } | Self::Nand16k { blocks } | Self::Nor { blocks, .. } => blocks,
        }
    }

    /// The size in bytes, OOB not counted.
    pub fn bytes(self) -> u64 {
        u64::from(self.erase_bytes()) * u64::from(self.blocks())
    }

    /// Page and OOB in bytes, where there are pages.
    pub fn page_bytes(self) -> Option<(u32, u32)> {
        match self {
            Self::Nand128k { .. } => Some((2048, 64)),
            Self::Nand16k { .. } => Some((512, 16)),
            Self::Nor { .. } => None,
        }
    }

    /// The command that makes it /dev/mtd0. Each disk of the guest stands for one device on NOR.
    pub fn appear(self, disk: char) -> String {
        match self {
            Self::Nand128k { blocks } => format!(
                "modprobe nandsim first_id_byte=0x20 second_id_byte=0xaa third_id_byte=0x00 fourth_id_byte=0x15 parts={blocks}"
            ),
            Self::Nand16k { blocks } => {
                format!("modprobe nandsim first_id_byte=0x20 second_id_byte=0x35 parts={blocks}")
            }
            Self::Nor { erase_bytes, .. } => format!("modprobe block2mtd block2mtd=/dev/vd{disk},{erase_bytes}"),
        }
    }

    /// The command that takes it away again.
    pub fn disappear(self) -> &'static str {
        match self {
            Self::Nand128k { .. } | Self::Nand16k { .. } => "rmmod nandsim",
            Self::Nor { .. } => "rmmod block2mtd",
        }
    }
}

/// An image on the host.
#[derive(Clone, Debug)]
pub struct Image {
    /// The file; it may be shorter than the device.
    pub path: PathBuf,
    /// Whether each page is followed by its OOB, as in the files of `nanddump --oob`. On NAND,
    /// JFFS2's cleanmarkers are there.
    pub with_oob: bool,
}

/// Long changes inside Linux.
#[derive(Clone, Copy, Debug)]
pub struct Churn {
    /// Seed of all random choices.
    pub seed: u64,
    /// How full the volume is kept.
    pub percent: u32,
    /// How much is written, in MiB: several times the volume, so that the collector must run.
    pub mib: u64,
}

/// A job for Linux on one device.
#[derive(Clone, Debug)]
pub struct Job {
    /// For messages.
    pub name: String,
    /// The flash.
    pub device: Device,
    /// The image on the flash at the start; erased flash if `None`.
    pub image: Option<Image>,
    /// Mount options, such as `compr=none`; may be empty.
    pub options: String,
    /// What is changed before it is unmounted.
    pub churn: Option<Churn>,
    /// Whether the image that is handed back has the OOB; NOR has none.
    pub dump_oob: bool,
}

/// The results of a job.
#[derive(Clone, Debug)]
pub struct Done {
    /// The tree as it was when the image was first mounted.
    pub mounted: Manifest,
    /// The tree before the last unmount, where there were changes.
    pub churned: Option<Manifest>,
    /// Blocks erased while it was mounted and listed for the first time: those that Linux does not
    /// trust to be erased.
    pub mount_erases: u64,
    /// The tree after it was mounted again, likewise.
    pub remounted: Option<Manifest>,
    /// Blocks erased during the changes.
    pub erases: u64,
    /// The flash's content after the last unmount.
    pub image: Image,
    /// Complaints of the kernel's JFFS2 about the image.
    pub complaints: Vec<String>,
    /// What was printed.
    pub output: String,
}

impl Done {
    /// Fails where the kernel complained, where what was changed did not survive the unmount, and
    /// where the collector had nothing to do.
    pub fn ensure_whole(&self, job: &Job) -> Result<()> {
        let name = &job.name;
        ensure!(self.complaints.is_empty(), "{name}: Linux complains:\n  {}", self.complaints.join("\n  "));
        if let (Some(before), Some(after)) = (&self.churned, &self.remounted) {
            let mut before = before.clone().with_later_times_of(after);
            let mut after = after.clone();
            if job.image.is_none() {
                // Nobody has written a node for the root, so that its time lives in memory only.
                (before, after) = (before.without_root(), after.without_root());
            }
            before.must_equal(&after, &format!("{name}: before the unmount / after it"))?;
            let blocks = u64::from(job.device.blocks());
            ensure!(
                self.erases > blocks,
                "{name}: {} erases on {blocks} blocks: the collector hardly ran",
                self.erases
            );
        }
        Ok(())
    }
}

/// Boots once and does the jobs one after the other. `work` is a directory for the images and
/// listings: a directory for each job.
pub fn run(kernel: &Kernel, work: &Path, jobs: &[Job], timeout: Duration) -> Result<(Vec<Done>, GuestRun)> {
    let mut guest = Guest::new(kernel, "jffs2").share(work).module("jffs2").timeout(timeout);
    let mut script = "step() { read -r up rest </proc/uptime; echo \"$up s: $*\"; }\n".to_owned();
    let mut disk = 'a';
    for (number, job) in jobs.iter().enumerate() {
        let place = work.join(number.to_string());
        fs::create_dir_all(&place)?;
        match job.device {
            Device::Nor { .. } => {
                // The file is the flash: Linux changes it in place, so that it is a copy.
                make_disk(job, &place.join("flash"))?;
                guest = guest.disk(&place.join("flash").display().to_string());
            }
            _ => {
                if let Some(image) = &job.image {
                    fs::copy(&image.path, place.join("image"))
                        .with_context(|| format!("cannot copy {}", image.path.display()))?;
                }
            }
        }
        script += &script_of(number, job, disk);
        if matches!(job.device, Device::Nor { .. }) {
            disk = (disk as u8 + 1) as char;
        }
    }
    let outcome = guest.run(&script)?.success()?;
    let mut done = Vec::new();
    for (number, job) in jobs.iter().enumerate() {
        done.push(collect(&work.join(number.to_string()), number, job, &outcome)?);
    }
    Ok((done, outcome))
}

/// The file behind a NOR flash: the image, and erased flash behind it.
fn make_disk(job: &Job, to: &Path) -> Result<()> {
    let mut content = match &job.image {
        Some(image) => fs::read(&image.path).with_context(|| format!("cannot read {}", image.path.display()))?,
        None => Vec::new(),
    };
    let bytes = usize::try_from(job.device.bytes())?;
    ensure!(content.len() <= bytes, "{}: the image is larger than the device", job.name);
    content.resize(bytes, 0xff);
    Ok(fs::write(to, content)?)
}

/// Commands that start the count of erases in the guest.
const COUNT_ERASES: &str = "\
echo 'p:nandkit_erase mtd_erase' >/sys/kernel/tracing/kprobe_events
echo 1 >/sys/kernel/tracing/events/kprobes/nandkit_erase/enable";

/// Commands that end the count of erases.
const COUNT_NO_MORE: &str = "\
echo 0 >/sys/kernel/tracing/events/kprobes/nandkit_erase/enable
echo >/sys/kernel/tracing/kprobe_events";

fn script_of(number: usize, job: &Job, disk: char) -> String {
    let mut script = format!("echo 'job {number} begins' >/dev/kmsg\nstep 'job {number} begins'\ncd /share/{number}\n");
    let mut line = |text: &str| {
        script += text;
        script.push('\n');
    };
    let nand = job.device.page_bytes().is_some();
    let mount = match job.options.as_str() {
        "" => "mount -t jffs2 mtd0 /mnt".to_owned(),
        options => format!("mount -t jffs2 -o {options} mtd0 /mnt"),
    };
    line(&job.device.appear(disk));
    match &job.image {
        // From memory and into memory: both programs go page by page, which takes milliseconds a
        // page in a shared folder.
        Some(image) if nand => {
            line("cp image /run/image");
            let how = if image.with_oob { "--oob" } else { "--pad" };
            line(&format!("nandwrite --quiet {how} /dev/mtd0 /run/image"));
            line("rm /run/image");
        }
        _ => {}
    }
    line("step loaded");
    line(COUNT_ERASES);
    line(&mount);
    line("helper manifest /mnt >mounted");
    line("cat /sys/kernel/tracing/kprobe_profile >mount-erases");
    line(COUNT_NO_MORE);
    line("step listed");
    if let Some(churn) = job.churn {
        line(COUNT_ERASES);
        line(&format!("helper churn /mnt {} {} {}", churn.seed, churn.percent, churn.mib));
        line("sync");
        line("cat /sys/kernel/tracing/kprobe_profile >erases");
        line(COUNT_NO_MORE);
        line("helper manifest /mnt >churned");
        line("step changed");
        line("umount /mnt");
        line(&mount);
        line("helper manifest /mnt >remounted");
        line("step listed again");
    }
    line("umount /mnt");
    if nand {
        let oob = if job.dump_oob { "--oob" } else { "--omitoob" };
        line(&format!("nanddump --quiet --bb=dumpbad {oob} --file=/run/flash /dev/mtd0"));
        line("cp /run/flash flash");
        line("rm /run/flash");
    }
    line("cd /");
    line("step done");
    line(job.device.disappear());
    script
}

fn collect(place: &Path, number: usize, job: &Job, outcome: &GuestRun) -> Result<Done> {
    let listing = |name: &str| Manifest::of_file(&place.join(name));
    let churned = job.churn.map(|_| listing("churned")).transpose()?;
    let remounted = job.churn.map(|_| listing("remounted")).transpose()?;
    let erases = match job.churn {
        Some(_) => hits(&fs::read_to_string(place.join("erases"))?)?,
        None => 0,
    };
    let mount_erases = hits(&fs::read_to_string(place.join("mount-erases"))?)?;
    let with_oob = job.dump_oob && job.device.page_bytes().is_some();
    Ok(Done {
        mounted: listing("mounted")?,
        mount_erases,
        churned,
        remounted,
        erases,
        image: Image { path: place.join("flash"), with_oob },
        complaints: complaints(section(&outcome.log, number)),
        output: section(&outcome.output, number).to_owned(),
    })
}

/// The hits of the one probe in a kprobe profile: `name hits misses`.
fn hits(profile: &str) -> Result<u64> {
    let hits = profile.split_whitespace().nth(1).and_then(|number| number.parse().ok());
    hits.with_context(|| format!("no kprobe profile: {profile}"))
}

/// The part of a log between the mark of this job and the mark of the next.
fn section(log: &str, number: usize) -> &str {
    let begin = log.find(&format!("job {number} begins")).unwrap_or(log.len());
    let rest = log.get(begin..).unwrap_or_default();
    let end = rest.find(&format!("job {} begins", number + 1)).unwrap_or(rest.len());
    rest.get(..end).unwrap_or_default()
}

/// The messages of JFFS2 and of the MTD layer, except those that sound images cause.
fn complaints(log: &str) -> Vec<String> {
    const SOURCES: [&str; 4] = ["jffs2", "nandsim] error", "block2mtd: error", "I/O error"];
    // The last two are what Linux says of a block that it has filled itself without leaving enough
    // room for the summary, which depends on when it flushes a page: that block has none then,
    // "non-fatal" (fs/jffs2/summary.c, `jffs2_sum_write_data`, `jffs2_sum_write_sumnode`).
    const HARMLESS: [&str; 4] =
        ["jffs2: version", "complete building xattr subsystem", "Summary too big", "Not enough space for summary"];
    log.lines()
        .filter(|line| SOURCES.iter().any(|source| line.contains(source)))
        .filter(|line| !HARMLESS.iter().any(|words| line.contains(words)))
        .map(str::to_owned)
        .collect()
}

/// mkfs.jffs2 makes images for no smaller erase blocks; Linux mounts smaller ones.
pub const MKFS_LEAST_ERASE_BYTES: u32 = 8 << 10;

/// An image made by mkfs.jffs2. On NAND without cleanmarkers, since it would put them into the
/// pages.
pub fn mkfs(tree: &Path, device: Device, to: &Path) -> Result<Image> {
    let program = crate::process::find("mkfs.jffs2").context("mkfs.jffs2 is missing (Debian: mtd-utils)")?;
    let mut mkfs = std::process::Command::new(program);
    mkfs.arg("--root").arg(tree).arg("--output").arg(to).arg(format!("--eraseblock={}", device.erase_bytes()));
    mkfs.args(["--little-endian", "--with-xattr"]);
    if device.page_bytes().is_some() {
        mkfs.arg("--no-cleanmarkers");
    }
    crate::process::output(&mut mkfs)?;
    if fs::metadata(to)?.len() > device.bytes() {
        bail!("mkfs.jffs2 made an image larger than the device");
    }
    Ok(Image { path: to.to_owned(), with_oob: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_job_has_its_part_of_the_log() {
        let log = "x\n[1] job 0 begins\n[1] jffs2: a\n[2] job 1 begins\n[3] jffs2: version 2.2\n[3] jffs2: warning: b\n\
             [3] jffs2: warning: (101) jffs2_sum_write_data: Not enough space for summary, padsize = -148\n";
        assert_eq!(complaints(section(log, 0)), ["[1] jffs2: a"]);
        assert_eq!(complaints(section(log, 1)), ["[3] jffs2: warning: b"]);
        assert_eq!(section(log, 2), "");
    }

    #[test]
    fn a_probe_that_counts_nothing_is_noticed() {
        assert_eq!(hits("  nandkit_erase    412      0\n").unwrap(), 412);
        assert!(hits("").is_err());
    }
}

//! `cargo xtask kernel wear`: what Linux's own JFFS2 or UBIFS programs and erases under the pattern
//! workload.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::build::{self, Kernel};
use super::guest::Guest;
use super::jffs2::Device;
use crate::options::{Options, Unusable};

const PATTERNS: [&str; 5] = ["seq", "rnd", "hcf", "hcc", "hci"];

/// A device of the measurement.
#[derive(Clone, Copy, Debug)]
pub struct Measurable {
    /// The device's name in `--device`.
    pub name: &'static str,
    device: Device,
    /// This chip as a device of nandkit, in TOML.
    pub chip: &'static str,
}

/// The devices of the measurement: 32 MiB each.
const DEVICES: [Measurable; 4] = [
    Measurable { name: "nandsim-128k", device: Device::Nand128k { blocks: 256 }, chip: "\"nandsim-32m-128k\"" },
    Measurable { name: "nandsim-16k", device: Device::Nand16k { blocks: 2048 }, chip: "\"nandsim-32m-16k\"" },
    Measurable {
        name: "nor-64k",
        device: Device::Nor { erase_bytes: 64 << 10, blocks: 512 },
        chip: "{ kind = \"nor\", blocks = 512 }",
    },
    Measurable {
        name: "nor-4k",
        device: Device::Nor { erase_bytes: 4 << 10, blocks: 8192 },
        chip: "{ kind = \"nor\", erase_size = \"4K\", blocks = 8192 }",
    },
];

/// The device of this name.
pub fn device(name: &str) -> Option<Measurable> {
    DEVICES.into_iter().find(|device| device.name == name)
}

/// Overwrites behind which UBIFS is synced.
pub const UBIFS_SYNC_EVERY: u64 = 256;

/// The bytes of a file of the workload.
pub const FILE_BYTES: u64 = 256 << 10;

/// Probes of all programs and erases. Every erase of the MTD layer passes `mtd_erase`; its address
/// is the first field of the structure behind the second argument (include/linux/mtd/mtd.h). The
/// length of what is programmed is the third argument of `mtd_write`, through which JFFS2's write
/// buffer goes on NAND. On NOR JFFS2 calls `mtd_writev`, into which the compiler puts a copy of
/// `mtd_write`: there the device's own function is probed.
fn probes(device: Device) -> String {
    let write = match device {
        Device::Nor { .. } => "block2mtd_write",
        _ => "mtd_write",
    };
    format!(
        "cd /sys/kernel/tracing
echo 'p:nandkit_erase mtd_erase addr=+0(%si):u64' >kprobe_events
echo 'p:nandkit_write {write} bytes=%dx:u64' >>kprobe_events
echo 'hist:keys=addr:size=16384' >events/kprobes/nandkit_erase/trigger
echo 'hist:keys=bytes:vals=bytes:size=16384' >events/kprobes/nandkit_write/trigger
cd /
"
    )
}

/// Makes an empty volume, which the mount of UBIFS then formats. UBI keeps 2 blocks in 1,024 of the
/// whole chip for bad ones, 4 here: with its default, 20, it would keep 40 of the 256 of this part.
const ON_UBI: &str =
    "ubiformat -q -y /dev/mtd0\nubiattach -b 2 -p /dev/mtd0 >/dev/null\nubimkvol /dev/ubi0 -N data -m >/dev/null\n";

const READ: &str = "\
cat /sys/kernel/tracing/events/kprobes/nandkit_erase/hist >/share/erases
cat /sys/kernel/tracing/events/kprobes/nandkit_write/hist >/share/writes
";

/// Plan of the measurement.
#[derive(Clone, Debug)]
struct Plan {
    /// UBIFS on UBI, which is synced now and then; else JFFS2.
    is_ubifs: bool,
    pattern: String,
    files: u64,
    user_mib: u64,
    device_name: &'static str,
    device: Device,
    options: String,
    timeout: Duration,
}

/// Results of one run.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Measured {
    programmed_bytes: u64,
    erases: u64,
    never_erased: u64,
}

/// Measures, and prints a row of a table for each run.
pub fn run(arguments: &[String]) -> Result<bool> {
    let valued = ["--fs", "--pattern", "--files", "--user-mib", "--device", "--options", "--runs", "--minutes"];
    let options = Options::parse(arguments, &[], &valued, 0)?;
    let plan = plan(&options)?;
    let kernel = build::build()?;
    let data = plan.files * FILE_BYTES;
    println!(
        "| file system | pattern | device | data MiB (of {} MiB) | user MiB | WA | erases per user MiB | never erased |",
        plan.device.bytes() >> 20
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
    for _ in 0..options.number("--runs", 1)? {
        let measured = measure(&kernel, &plan)?;
        let user = plan.user_mib as f64;
        println!(
            "| {} | {} | {} | {:.2} ({:.0} %) | {} | {:.3} | {:.2} | {} of {} |",
            if plan.is_ubifs { "ubifs" } else { "jffs2" },
            plan.pattern,
            plan.device_name,
            data as f64 / f64::from(1 << 20),
            100.0 * data as f64 / plan.device.bytes() as f64,
            plan.user_mib,
            measured.programmed_bytes as f64 / user / f64::from(1 << 20),
            measured.erases as f64 / user,
            measured.never_erased,
            plan.device.blocks()
        );
    }
    Ok(true)
}

fn plan(options: &Options) -> Result<Plan> {
    let pattern = options.text("--pattern").unwrap_or("hcf").to_owned();
    if !PATTERNS.contains(&pattern.as_str()) {
        bail!(Unusable(format!("--pattern {pattern}: there are {}", PATTERNS.join(", "))));
    }
    let name = options.text("--device").unwrap_or("nandsim-128k");
    let Some(Measurable { name: device_name, device, .. }) = device(name) else {
        bail!(Unusable(format!("--device {name}: there are {}", DEVICES.map(|device| device.name).join(", "))));
    };
    let files = options.number("--files", 104)?;
    // Hot and cold patterns are made of whole eighths.
    if files == 0 || files % 8 != 0 || files * FILE_BYTES >= device.bytes() {
        bail!(Unusable(format!(
            "--files {files}: a multiple of 8 is expected, and files of 256 KiB that fit on the device"
        )));
    }
    let is_ubifs = match options.text("--fs") {
        None | Some("jffs2") => false,
        Some("ubifs") => true,
        Some(other) => bail!(Unusable(format!("--fs {other}: there are jffs2 and ubifs"))),
    };
    Ok(Plan {
        is_ubifs,
        pattern,
        files,
        user_mib: options.number("--user-mib", 256)?.max(1),
        device_name,
        device,
        options: options.text("--options").unwrap_or("compr=none").to_owned(),
        timeout: Duration::from_secs(60 * options.number("--minutes", 60)?),
    })
}

fn measure(kernel: &Kernel, plan: &Plan) -> Result<Measured> {
    let share = kernel.directory.join(format!("wear-{}", std::process::id()));
    fs::create_dir_all(&share)?;
    let Plan { is_ubifs, pattern, files, user_mib, options, .. } = plan;
    let (mount, sync_every) = match is_ubifs {
        true => (format!("{ON_UBI}mount -t ubifs -o {options} ubi0:data /mnt"), UBIFS_SYNC_EVERY.to_string()),
        false => (format!("mount -t jffs2 -o {options} mtd0 /mnt"), String::new()),
    };
    let appear = plan.device.appear('a');
    let script = format!(
        "{appear}\n{mount}\nhelper fill /mnt {files}\nsync\n{}\
         helper overwrite /mnt {pattern} {files} {user_mib} {sync_every}\nsync\n{READ}umount /mnt\n",
        probes(plan.device)
    );
    let mut guest =
        Guest::new(kernel, "wear").module("jffs2").module("ubi").module("ubifs").share(&share).timeout(plan.timeout);
    // An erased NOR flash is a file of ones.
    let disk = share.with_extension("nor");
    if let Device::Nor { .. } = plan.device {
        fs::write(&disk, vec![0xFF; usize::try_from(plan.device.bytes())?])?;
        guest = guest.disk(&disk.to_string_lossy());
    }
    guest.run(&script)?.success()?;
    let _ = fs::remove_file(&disk);
    let read = |name: &str| Histogram::parse(&fs::read_to_string(share.join(name))?);
    let (erases, writes) = (read("erases")?, read("writes")?);
    fs::remove_dir_all(&share)?;
    let programmed_bytes = writes.buckets.iter().map(|(bytes, hits)| bytes * hits).sum();
    ensure!(
        programmed_bytes >= user_mib << 20,
        "{programmed_bytes} bytes were programmed for {user_mib} MiB: the probe misses some"
    );
    let touched = erases.buckets.len() as u64;
    Ok(Measured {
        programmed_bytes,
        erases: erases.hits(),
        never_erased: u64::from(plan.device.blocks()).saturating_sub(touched),
    })
}

/// The buckets of a hist trigger with one numeric key: key and hits.
#[derive(Debug, PartialEq)]
struct Histogram {
    buckets: Vec<(u64, u64)>,
}

impl Histogram {
    /// Reads the `hist` file of a trigger (Linux, Documentation/trace/histogram.rst). A histogram
    /// that had to drop something is refused.
    fn parse(text: &str) -> Result<Self> {
        let mut buckets = Vec::new();
        for line in text.lines().filter(|line| line.starts_with('{')) {
            let number = |mark: &str| {
                let (_, rest) = line.split_once(mark)?;
                rest.split_whitespace().next()?.trim_end_matches(',').parse::<u64>().ok()
            };
            let key = number(":").with_context(|| format!("no bucket: {line}"))?;
            buckets.push((key, number("hitcount:").with_context(|| format!("no bucket: {line}"))?));
        }
        ensure!(text.lines().any(|line| line.trim() == "Dropped: 0"), "the histogram is not whole:\n{text}");
        Ok(Self { buckets })
    }

    fn hits(&self) -> u64 {
        self.buckets.iter().map(|(_, hits)| hits).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_is_read_whole_or_not_at_all() {
        let text = "# event histogram\n#\n\n{ addr:     131072 } hitcount:          2\n{ addr:          0 } hitcount:         12  bytes:  9\n\n\
                    Totals:\n    Hits: 14\n    Entries: 2\n    Dropped: 0\n";
        let histogram = Histogram::parse(text).unwrap();
        assert_eq!(histogram.buckets, [(131072, 2), (0, 12)]);
        assert_eq!(histogram.hits(), 14);
        assert!(Histogram::parse(&text.replace("Dropped: 0", "Dropped: 3")).is_err());
        assert!(Histogram::parse("").is_err());
    }

    #[test]
    fn what_cannot_be_measured_is_refused() {
        let parse = |line: &str| {
            let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            plan(&Options::parse(&words, &[], &["--fs", "--pattern", "--files", "--device"], 0).unwrap())
        };
        assert!(parse("--pattern hci --files 96 --device nandsim-16k").is_ok());
        for line in ["--pattern cold", "--files 9", "--files 128", "--device nandsim-4k"] {
            assert!(parse(line).unwrap_err().is::<Unusable>(), "{line}");
        }
    }
}

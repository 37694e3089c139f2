//! `cargo xtask kernel f2fs-turns`: a volume that nandkit makes goes from Linux to nandkit and
//! back, and each writes until its collector has moved blocks. After each turn the other finds the
//! tree as it was left, and fsck.f2fs nothing.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::f2fs_tools::{TIMEOUT, build_example, build_lister, fsck_f2fs, list};
use super::guest::Guest;
use super::manifest::Manifest;
use super::ours::Nandkit;
use super::trial::{KEEP, Trial};
use crate::options::Options;
use crate::process;

/// Name, which is also the mode of Linux's mount and of nandkit's, and options of
/// `nandkit mkfs f2fs`.
const VOLUMES: [(&str, &str, &str); 3] = [
    ("adaptive", "adaptive", "--size 96M"),
    ("lfs", "lfs", "--size 96M"),
    ("lfs-newer", "lfs", "--size 128M -O extra_attr,inode_checksum,inode_crtime,flexible_inline_xattr,sb_checksum"),
];

/// Blocks that each collector moves at least.
const MOVED: u64 = 500;

/// Linux writes over two large files in a volume that is nearly full, until sections have to be
/// emptied; where gaps are filled instead, the collector of idle times is told to hurry. Its
/// counters are those of the volume's status: GC calls, and blocks that were tried to be moved, in
/// all and in idle times.
const UNTIL_COLLECTED: &str = r#"
until_collected() {
    round=0
    while [ $round -lt 60 ]; do
        moved=$(($(cat /sys/fs/f2fs/$1/moved_blocks_foreground) + $(cat /sys/fs/f2fs/$1/moved_blocks_background)))
        [ $moved -ge BLOCKS ] && return 0
        helper churn /mnt/churned $((SEED + round)) 88 6
        sync
        [ $2 = adaptive ] && echo 1 >/sys/fs/f2fs/$1/gc_urgent && sleep 2 && echo 0 >/sys/fs/f2fs/$1/gc_urgent
        round=$((round + 1))
    done
    return 1
}
"#;

/// Runs the trial and prints what it saw; an error where something does not hold.
pub fn run(arguments: &[String]) -> Result<bool> {
    let options = Options::parse(arguments, &[KEEP], &["--seed", "--nandkit"], 0)?;
    Trial::run("f2fs-turns", &options, |trial| {
        let nandkit = Nandkit::find(&options)?;
        Turns { trial, seed: options.number("--seed", 1)? }.run(&nandkit)
    })
}

struct Turns<'a> {
    trial: &'a Trial,
    seed: u64,
}

impl Turns<'_> {
    fn run(&self, nandkit: &Nandkit) -> Result<()> {
        let tree = self.trial.work.join("source");
        fs::create_dir_all(tree.join("churned"))?;
        let mut helper = Command::new(self.trial.kernel.helper());
        process::output(helper.arg("tree").arg(&tree).args([&self.seed.to_string(), "12"]))?;
        let (collector, lister) = (build_example("f2fs-collect")?, build_lister()?);
        let made = Manifest::of_directory(&self.trial.kernel, &tree)?;
        for (name, _, words) in VOLUMES {
            let mut mkfs = nandkit.command();
            mkfs.args(["mkfs", "f2fs", "--from"]).arg(&tree).args(words.split_whitespace()).arg(self.trial.image(name));
            process::output(&mut mkfs)?;
        }
        self.all_sound("made by nandkit")?;
        self.linux_writes()?;
        self.all_sound("collected by Linux")?;
        for (name, ..) in VOLUMES {
            let mounted = self.trial.manifest(name, "mounted")?.without_root();
            made.clone().without_root().must_equal(&mounted, &format!("{name}: the tree / Linux"))?;
        }
        let mut ours = Vec::new();
        for (name, mode, _) in VOLUMES {
            ours.push(self.nandkit_writes((&collector, &lister), name, mode)?);
        }
        self.all_sound("collected by nandkit")?;
        self.linux_looks()?;
        self.all_sound("mounted by Linux once more")?;
        for ((name, ..), ours) in VOLUMES.iter().zip(ours) {
            let last = self.trial.manifest(name, "last")?;
            ours.must_equal(&last, &format!("{name}: as nandkit left it / as Linux lists it"))?;
            println!("{name}: {} entries, the same to both after each turn; fsck.f2fs is content", last.len());
        }
        Ok(())
    }

    fn all_sound(&self, when: &str) -> Result<()> {
        VOLUMES
            .iter()
            .try_for_each(|(name, ..)| fsck_f2fs(&self.trial.image(name)).with_context(|| format!("{name}, {when}")))
    }

    fn guest(&self, name: &str) -> Result<Guest<'_>> {
        let mut guest = Guest::new(&self.trial.kernel, name).share(&self.trial.work).timeout(TIMEOUT).module("f2fs");
        for (name, ..) in VOLUMES {
            guest = guest.disk(&self.trial.disk(name)?);
        }
        Ok(guest)
    }

    /// Linux lists what nandkit made, writes until its collector has worked, and lists what there
    /// is after a remount.
    fn linux_writes(&self) -> Result<()> {
        let mut script = UNTIL_COLLECTED.replace("BLOCKS", &MOVED.to_string()).replace("SEED", &self.seed.to_string());
        for ((name, mode, _), letter) in VOLUMES.iter().zip('a'..) {
            let mount = format!("mount -t f2fs -o mode={mode} /dev/vd{letter} /mnt\n");
            script += &format!(
                "{mount}helper manifest /mnt >/share/{name}.mounted\nuntil_collected vd{letter} {mode} || exit 3\n\
                 for what in foreground background; do echo $what $(cat /sys/fs/f2fs/vd{letter}/moved_blocks_$what) >>/share/{name}.moved; done\n\
                 cat /sys/kernel/debug/f2fs/status >/share/{name}.status\n\
                 umount /mnt\n{mount}helper manifest /mnt >/share/{name}.after\numount /mnt\n"
            );
        }
        let outcome = self.guest("f2fs-turns")?.run(&script)?.success()?;
        println!("Linux {}: {:.0} s", self.trial.kernel.version, outcome.took.as_secs_f64());
        for (name, ..) in VOLUMES {
            let moved = fs::read_to_string(self.trial.work.join(format!("{name}.moved")))?;
            let blocks: u64 = moved.split_whitespace().filter_map(|word| word.parse::<u64>().ok()).sum();
            ensure!(blocks >= MOVED, "{name}: Linux's collector moved {blocks} blocks");
            println!("{name}: blocks that Linux's collector moved: {}", moved.trim().replace('\n', ", "));
        }
        Ok(())
    }

    /// nandkit finds what Linux left and writes until its collector has worked; the tree then.
    fn nandkit_writes(&self, (collector, lister): (&Path, &Path), name: &str, mode: &str) -> Result<Manifest> {
        let image = self.trial.image(name);
        let (found, told) = list(lister, &image, &[])?;
        let after = self.trial.manifest(name, "after")?;
        after.must_equal(&found, &format!("{name}: as Linux left it / as nandkit lists it"))?;
        ensure!(!told.contains("note\t"), "{name}: notes of a whole volume:\n{told}");
        let mut words = Command::new(collector);
        words.arg(&image).args([&self.seed.to_string(), mode, &MOVED.to_string()]);
        print!("{name}, {} entries as Linux left them: {}", found.len(), process::output(&mut words)?);
        Ok(list(lister, &image, &[])?.0)
    }

    /// Linux lists what nandkit left.
    fn linux_looks(&self) -> Result<()> {
        let mut script = String::new();
        for ((name, mode, _), letter) in VOLUMES.iter().zip('a'..) {
            script += &format!(
                "mount -t f2fs -o mode={mode} /dev/vd{letter} /mnt\nhelper manifest /mnt >/share/{name}.last\numount /mnt\n"
            );
        }
        let outcome = self.guest("f2fs-turns-last")?.run(&script)?.success()?;
        let usual =
            |line: &str| line.contains("Mounted with checkpoint") || line.contains("Found nat_bits in checkpoint");
        let said: Vec<&str> = outcome.log.lines().filter(|line| line.contains("F2FS-fs") && !usual(line)).collect();
        ensure!(said.is_empty(), "Linux says of the volumes:\n{}", said.join("\n"));
        Ok(())
    }
}

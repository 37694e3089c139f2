//! `cargo xtask kernel f2fs-made`: volumes of F2FS that nandkit makes from a tree, some of them
//! changed or brought to another size by nandkit, some full of gaps that it filled. Linux mounts
//! them, finds every name by lookup and everything equal, writes into them, and fsck.f2fs finds
//! nothing. `--only NAMES` takes some of them, with commas between.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::f2fs_tools::{TIMEOUT, build_example, build_lister, fsck_f2fs, list};
use super::guest::Guest;
use super::manifest::Manifest;
use super::ours::Nandkit;
use super::trial::{KEEP, Trial};
use crate::options::Options;
use crate::process;

/// Names of the large directory.
const NAMES: usize = 5000;
/// A name of it whose hash is spoilt in one volume.
const PLANTED: &str = "many/the name whose hash is planted wrong";

/// A file of 1 GiB, which takes the guest long to read: in the first volume only.
const LARGE: &str = "sparse/with-data";

/// Name, and options of `nandkit mkfs f2fs`.
const VOLUMES: [(&str, &str); 13] = [
    ("plain", "--size 1G"),
    ("smallest", "--exclude sparse/with-data"),
    (
        "extra",
        "--exclude sparse/with-data --size 700M -O extra_attr,inode_checksum,inode_crtime,sb_checksum,flexible_inline_xattr,lost_found,verity",
    ),
    ("quota", "--exclude sparse/with-data --size 700M -O extra_attr,quota,project_quota,compression"),
    ("sections", "--exclude sparse/with-data --size 2G -s 4 -z 2 -i"),
    ("changed", "--exclude sparse/with-data --size 700M"),
    (
        "changed-extra",
        "--exclude sparse/with-data --size 700M -O extra_attr,inode_checksum,inode_crtime,flexible_inline_xattr",
    ),
    (
        "changed-quota",
        "--exclude sparse/with-data --size 700M -O encrypt,extra_attr,quota,project_quota,inode_checksum,casefold,compression,verity -C utf8",
    ),
    ("planted", "--exclude sparse/with-data --size 700M"),
    ("grown", "--exclude sparse/with-data --size 200M"),
    ("shrunk", "--exclude sparse/with-data --size 3G -O extra_attr,inode_checksum,sb_checksum,quota,project_quota"),
    ("partial", "--exclude sparse/with-data --size 300M"),
    ("by-age", "--exclude sparse/with-data --size 300M -O extra_attr,inode_checksum"),
];

/// Volumes of which nandkit fills the gaps of used segments, and the way in which it treats these
/// before.
const REUSED: [(&str, &str); 2] = [("partial", "pgc"), ("by-age", "atgc")];

/// Volumes that nandkit brings to another size before Linux mounts them. The first needs larger
/// tables for it, so that the main area begins elsewhere; in the second all that is behind the new
/// end moves.
const RESIZED: [(&str, &str); 2] = [("grown", "1200M"), ("shrunk", "256M")];

/// Volumes that nandkit changes before Linux mounts them, by [`OPERATIONS`] operations: what
/// nandkit lists after that is what Linux must see.
const CHANGED: [&str; 3] = ["changed", "changed-extra", "changed-quota"];
const OPERATIONS: u64 = 4000;

/// What Linux does in each volume besides the helper's changes: to files, names and attributes that
/// nandkit made.
const WORK: &str = "cd /mnt\nrm -rf many/1*\nmv tree moved\nrm -f sparse/with-data\necho more >>sparse/some-data\ntruncate -s 100 sparse/empty\n\
    number=0\nwhile [ $number -lt 1000 ]; do echo $number >many/of-linux-$number; number=$((number + 1)); done\n\
    ln many/2-nn many/second-name\nmkdir churned\ncd /\n";

/// Runs the trial and prints what it saw; an error where something does not hold.
pub fn run(arguments: &[String]) -> Result<bool> {
    let options = Options::parse(arguments, &[KEEP], &["--seed", "--mib", "--nandkit", "--only"], 0)?;
    Trial::run("f2fs-made", &options, |trial| {
        let nandkit = Nandkit::find(&options)?;
        let only = options.text("--only").map(|names| names.split(',').map(str::to_owned).collect());
        Made { trial, seed: options.number("--seed", 1)?, mib: options.number("--mib", 30)?, only }.run(&nandkit)
    })
}

struct Made<'a> {
    trial: &'a Trial,
    seed: u64,
    mib: u64,
    /// Names of the volumes that are taken; `None`: all.
    only: Option<Vec<String>>,
}

impl Made<'_> {
    fn run(&self, nandkit: &Nandkit) -> Result<()> {
        let tree = self.make_tree()?;
        let all = Manifest::of_directory(&self.trial.kernel, &tree)?;
        let some = all.clone().without(LARGE);
        for (name, words) in self.volumes() {
            let image = self.trial.image(name);
            let mut mkfs = nandkit.command();
            mkfs.args(["mkfs", "f2fs", "--from"]).arg(&tree).args(words.split_whitespace()).arg(&image);
            process::output(&mut mkfs)?;
            fsck_f2fs(&image)?;
        }
        for (name, size) in self.some(RESIZED) {
            let image = self.trial.image(name);
            print!("{name}: {}", process::output(nandkit.command().arg("resize").arg(&image).arg(size))?);
            fsck_f2fs(&image).with_context(|| format!("{name}, resized by nandkit"))?;
        }
        let changer = build_example("f2fs-change")?;
        let lister = build_lister()?;
        let mut changed = BTreeMap::new();
        for (name, ()) in self.some(CHANGED.map(|name| (name, ()))) {
            self.change(&changer, name, self.seed)?;
            changed.insert(name, list(&lister, &self.trial.image(name), &[])?.0);
        }
        let filler = build_example("f2fs-partial")?;
        for (name, mode) in self.some(REUSED) {
            let image = self.trial.image(name);
            let mut words = Command::new(&filler);
            words.arg(&image).arg(mode).arg(self.seed.to_string());
            print!("{name}, {mode}: {}", process::output(&mut words)?);
            fsck_f2fs(&image).with_context(|| format!("{name}, filled by nandkit with {mode}"))?;
            changed.insert(name, list(&lister, &image, &[])?.0);
        }
        for (name, ()) in self.some([("planted", ())]) {
            plant(&self.trial.image(name))?;
            let complaint = fsck_f2fs(&self.trial.image(name));
            ensure!(complaint.is_err(), "fsck.f2fs does not see the planted hash");
        }
        self.linux()?;
        for (name, _) in self.volumes() {
            let listing = |kind: &str| self.trial.manifest(name, kind);
            let mounted = listing("mounted");
            let expected = changed.get(name).unwrap_or(if name == "plain" { &all } else { &some });
            if name == "planted" {
                let seen = mounted.map_or(true, |mounted| !differences(expected, &mounted).is_empty());
                ensure!(seen, "Linux finds a name whose hash is wrong: this judge sees nothing");
                continue;
            }
            let mounted = mounted?;
            let different = differences(expected, &mounted);
            ensure!(
                different.is_empty(),
                "{name}: tree / Linux: {} differ:\n{}",
                different.len(),
                different.join("\n")
            );
            fsck_f2fs(&self.trial.image(name)).with_context(|| format!("{name}, after Linux wrote"))?;
            let (after, (ours, told)) = (listing("after")?, list(&lister, &self.trial.image(name), &[])?);
            after.must_equal(&ours, &format!("{name}, changed: as Linux lists it / as nandkit does"))?;
            ensure!(!told.contains("note\t"), "{name}: notes of a whole volume:\n{told}");
            if CHANGED.contains(&name) {
                self.change(&changer, name, self.seed + 1)?;
            }
            println!(
                "{name}: {} entries equal, {} after Linux wrote; fsck.f2fs is content",
                mounted.len(),
                after.len()
            );
        }
        Ok(())
    }

    /// The entries of a list that `--only` names; all of them without it.
    fn some<T, const N: usize>(&self, list: [(&'static str, T); N]) -> Vec<(&'static str, T)> {
        let is_wanted = |name: &str| self.only.as_ref().is_none_or(|only| only.iter().any(|wanted| wanted == name));
        list.into_iter().filter(|(name, _)| is_wanted(name)).collect()
    }

    fn volumes(&self) -> Vec<(&'static str, &'static str)> {
        self.some(VOLUMES)
    }

    /// nandkit changes a volume, and fsck.f2fs finds nothing: neither in the tree nor in what quota
    /// files count.
    fn change(&self, changer: &Path, name: &str, seed: u64) -> Result<()> {
        let image = self.trial.image(name);
        let mut words = Command::new(changer);
        words.arg(&image).args([seed, OPERATIONS].map(|number| number.to_string()));
        print!("{name}: {}", process::output(&mut words)?);
        fsck_f2fs(&image).with_context(|| format!("{name}, changed by nandkit"))
    }

    /// One boot; each volume is a disk.
    fn linux(&self) -> Result<()> {
        let mut guest = Guest::new(&self.trial.kernel, "f2fs-made")
            .share(&self.trial.work)
            .timeout(TIMEOUT)
            .module("quota_v2")
            .module("f2fs");
        let mut script = String::new();
        let volumes = self.volumes();
        ensure!(!volumes.is_empty(), "--only names none of the volumes");
        for ((name, _), letter) in volumes.iter().zip('a'..) {
            guest = guest.disk(&self.trial.disk(name)?);
            script += &format!("mount -t f2fs /dev/vd{letter} /mnt\n");
            if *name == "planted" {
                script += &format!(
                    "helper manifest /mnt >/share/{name}.mounted 2>/dev/null || rm /share/{name}.mounted\numount /mnt\n"
                );
                continue;
            }
            // The helper keeps a volume as full as it is told to, which must be more than it is;
            // the smallest volume is full, and those with gaps nearly.
            let churn = match *name {
                "smallest" | "partial" | "by-age" => String::new(),
                _ => format!("helper churn /mnt/churned {} 85 {}\n", self.seed, self.mib),
            };
            script += &format!(
                "helper manifest /mnt >/share/{name}.mounted\n{WORK}{churn}sync\n\
                 umount /mnt\nmount -t f2fs /dev/vd{letter} /mnt\nhelper manifest /mnt >/share/{name}.after\numount /mnt\n"
            );
        }
        let outcome = guest.run(&script)?.success()?;
        // Quotas that Linux cannot keep would be told here, too. Of a sound volume Linux says which
        // checkpoint it has, that nat_bits are right, and how names are folded.
        let usual = |line: &str| {
            ["Mounted with checkpoint", "Found nat_bits in checkpoint", "Using encoding defined by superblock"]
                .iter()
                .any(|said| line.contains(said))
        };
        let bad = |line: &&str| line.contains("F2FS-fs") && !usual(line);
        let said: Vec<&str> = outcome.log.lines().filter(bad).collect();
        ensure!(said.is_empty(), "Linux says of the volumes:\n{}", said.join("\n"));
        println!(
            "{} volumes in Linux {}: {:.0} s",
            volumes.len(),
            self.trial.kernel.version,
            outcome.took.as_secs_f64()
        );
        Ok(())
    }

    /// The helper's tree with every kind of entry, and around it what F2FS keeps in other ways than
    /// small files.
    fn make_tree(&self) -> Result<PathBuf> {
        let top = self.trial.work.join("source");
        let path = |name: &str| top.join(name);
        for directory in ["tree", "many", "names", "sparse", "links", "attributes/with", "empty"] {
            fs::create_dir_all(path(directory))?;
        }
        process::output(
            Command::new(self.trial.kernel.helper()).arg("tree").arg(path("tree")).args([&self.seed.to_string(), "20"]),
        )?;
        for number in 0..NAMES {
            fs::write(path(&format!("many/{number}-{}", "n".repeat(number % 100))), format!("file {number}\n"))?;
        }
        fs::write(path(PLANTED), "planted")?;
        fs::write(path("names").join("x".repeat(255)), "the longest name")?;
        for name in ["Größe", "файл", "ファイル", "🦀 crab", "with\nnewline", "-", "a\\b"] {
            fs::write(path("names").join(name), name)?;
        }
        sparse(&path("sparse/empty"), 20 << 20, &[])?;
        sparse(&path("sparse/some-data"), 40 << 20, &[(5 << 20, 100_000), (39 << 20, 9)])?;
        sparse(&path(LARGE), 1 << 30, &[(0, 5000), (3 << 20, 9000), (600 << 20, 3 << 20), ((1 << 30) - 77, 77)])?;
        fs::write(path("sparse/large.mp4"), pattern(18 << 20))?;
        for length in [1, 60, 1000, 3488, 3489, 4095] {
            symlink("t/".repeat(length / 2 + 1).split_at(length).0, path(&format!("links/{length}")))?;
        }
        attributes(&path("attributes"))?;
        Ok(top)
    }
}

/// A file with data in some places.
fn sparse(path: &Path, size: u64, data: &[(u64, usize)]) -> Result<()> {
    let file = fs::File::create(path)?;
    file.set_len(size)?;
    data.iter().try_for_each(|(at, length)| file.write_all_at(&pattern(*length), *at))?;
    Ok(())
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 7 + at / 4096 * 13) as u8).collect()
}

/// Attributes that fit into the inode, that need a node, and access control lists.
fn attributes(directory: &Path) -> Result<()> {
    let set = |name: &str, value: &str, to: &str| {
        process::output(Command::new("setfattr").args(["-n", name, "-v", value]).arg(directory.join(to))).map(drop)
    };
    for name in ["small", "large", "list"] {
        fs::write(directory.join(name), name)?;
    }
    set("user.small", "value", "small")?;
    set("user.empty", "", "small")?;
    set("user.large", &"long value ".repeat(300), "large")?;
    set("trusted.of-root", "t", "large")?;
    set("security.something", "s", "with")?;
    for words in [["-m", "u:1000:rwx,g:70000:r", "list"], ["-dm", "u:5:rx", "with"]] {
        process::output(Command::new("setfacl").args(&words[..2]).arg(directory.join(words[2])))?;
    }
    Ok(())
}

/// Changes the hash of a name in its directory's block.
fn plant(image: &Path) -> Result<()> {
    let (bytes, name) = (fs::read(image)?, PLANTED.rsplit('/').next().unwrap_or(PLANTED).as_bytes());
    // Entries of a block: 11 bytes each from byte 30 on, their names 8 bytes a slot from byte 2384
    // on (docs/formats/f2fs.md, "Directories").
    let found = bytes.chunks(4096).enumerate().find_map(|(block, bytes)| {
        let slot = (0..214).find(|slot| bytes.get(2384 + slot * 8..).is_some_and(|rest| rest.starts_with(name)))?;
        Some((block * 4096 + 30 + slot * 11) as u64)
    });
    let at = found.context("no directory's block holds the name to plant")?;
    let hash = bytes.get(at as usize).copied().unwrap_or(0);
    let file = fs::File::options().write(true).open(image)?;
    Ok(file.write_all_at(&[hash ^ 1], at)?)
}

/// The root has another size in each file system, and where the feature makes it, lost+found.
fn differences(expected: &Manifest, mounted: &Manifest) -> Vec<String> {
    let mut different = expected.differences(mounted);
    different.retain(|line| !line.starts_with("lost+found: only in the second") && !line.starts_with(".: nlink"));
    different
}

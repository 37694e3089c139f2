//! `cargo xtask kernel f2fs`: volumes that Linux writes, with every option that changes where
//! things lie, listed by Linux and by nandkit.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::f2fs_tools::{TIMEOUT, build_example, build_lister, fsck_f2fs, list};
use super::guest::Guest;
use super::trial::{KEEP, Trial};
use crate::options::Options;
use crate::process;

/// Each volume, in MiB.
const VOLUME_MIB: u64 = 512;

/// How a volume is made and mounted.
struct VolumeRecipe {
    name: &'static str,
    mkfs: &'static str,
    mount: &'static str,
    /// Commands in the volume's root, before the rest.
    first: &'static str,
}

const fn volume(name: &'static str, mkfs: &'static str, mount: &'static str) -> VolumeRecipe {
    VolumeRecipe { name, mkfs, mount, first: "" }
}

const VOLUMES: [VolumeRecipe; 10] = [
    volume("plain", "", "rw"),
    volume(
        "extra",
        "-O extra_attr,inode_checksum,flexible_inline_xattr,inode_crtime,project_quota,quota,sb_checksum,verity,lost_found",
        "inline_xattr_size=20",
    ),
    volume("no-inline", "-s 2", "noinline_data,noinline_dentry,noinline_xattr"),
    volume("two-logs", "-O extra_attr,inode_checksum", "active_logs=2,mode=lfs"),
    volume(
        "lz4",
        "-O extra_attr,compression,inode_checksum",
        "compress_algorithm=lz4,compress_log_size=2,compress_extension=*,compress_chksum",
    ),
    volume(
        "zstd",
        "-O extra_attr,compression,inode_crtime",
        "compress_algorithm=zstd:6,compress_log_size=4,compress_extension=*",
    ),
    volume("lzo", "-O extra_attr,compression", "compress_algorithm=lzo,compress_log_size=3,compress_extension=*"),
    volume(
        "lzo-rle",
        "-O extra_attr,compression",
        "compress_algorithm=lzo-rle,compress_log_size=8,compress_extension=*",
    ),
    VolumeRecipe { first: FOLDED, ..volume("casefold", "-O extra_attr,casefold -C utf8", "rw") },
    // As Android makes userdata; Linux keeps limits, too.
    VolumeRecipe {
        first: PROJECTS,
        ..volume(
            "android",
            "-O encrypt,quota,verity,extra_attr,project_quota,casefold,compression -C utf8",
            "usrquota,grpquota,prjquota,compress_algorithm=lz4,compress_log_size=2,compress_extension=*,compress_chksum",
        )
    },
];

/// The guest's shell takes its own programs of these names first, which know less.
const PROGRAMS: &str = "fallocate() { /bin/fallocate \"$@\"; }\nchattr() { /bin/chattr \"$@\"; }\n";

/// Names of a directory in which case does not matter; what looks for them follows.
const FOLDED: &str = "mkdir folded\nchattr +F folded\n\
    for name in Apfel STRASSE Straße2 ÉTÉ été2 ΣΊΣΥΦΟΣ mixedCASE; do echo $name >folded/$name; done\n\
    number=0\nwhile [ $number -lt 700 ]; do echo $number >folded/Name$number; number=$((number + 1)); done\n";
/// The names of [`FOLDED`], and files of owners and of a project that Linux counts.
const PROJECTS: &str = "mkdir folded\nchattr +F folded\n\
    for name in Apfel STRASSE Straße2 ÉTÉ été2 ΣΊΣΥΦΟΣ mixedCASE; do echo $name >folded/$name; done\n\
    number=0\nwhile [ $number -lt 700 ]; do echo $number >folded/Name$number; chown $number:$((number * 7001)) folded/Name$number; number=$((number + 1)); done\n\
    mkdir project\nchattr -p 7777 project\nchattr +P project\nseq 1 90000 >project/file\nmkdir project/below\nseq 1 70 >project/below/file\n";
const LOOKED_FOR: [(&str, bool); 8] = [
    ("folded/APFEL", true),
    ("folded/Straße", true),
    ("folded/strasse2", true),
    ("folded/e\u{301}te\u{301}", true),
    ("folded/σίσυφος", true),
    ("folded/NAME699", true),
    ("folded/name700", false),
    ("FOLDED/apfel", false),
];

/// What is done in each volume's root besides: files around the limits of what an inode holds,
/// directories of several levels with removed names, holes, space ahead, content that shrinks and
/// some that does not, attributes in the inode and in a node of their own. Holes and space ahead
/// are refused by Linux where files are compressed.
const WORK: &str = r#"
mkdir limits many holes packed attributes
size=3380
while [ $size -lt 3720 ]; do head -c $size /dev/urandom >limits/of$size; size=$((size + 17)); done
head -c 3000 /dev/urandom >limits/grown; head -c 3000 /dev/urandom >>limits/grown
head -c 9000 /dev/urandom >limits/shrunk; truncate -s 100 limits/shrunk
number=0
while [ $number -lt 600 ]; do echo $number >many/name-of-the-file-with-number-$number; number=$((number + 1)); done
number=0
while [ $number -lt 600 ]; do rm many/name-of-the-file-with-number-$number; number=$((number + 3)); done
mkdir many/a many/b
ln many/name-of-the-file-with-number-1 many/second-name
head -c 9000000 /dev/urandom >holes/punched
fallocate -p -o 1000000 -l 3000000 holes/punched || :
fallocate -p -o 5000000 -l 5 holes/punched || :
truncate -s 60000000 holes/sparse
echo in the middle | dd of=holes/sparse bs=1 seek=30000000 conv=notrunc 2>/dev/null
fallocate -l 5000000 holes/ahead || :
echo begins | dd of=holes/ahead conv=notrunc 2>/dev/null
: >holes/behind
fallocate -n -l 5000000 holes/behind || :
head -c 16000000 /dev/urandom >holes/large
seq 1 300000 >packed/text
(seq 1 20000; head -c 100000 /dev/urandom; seq 1 20000; head -c 300000 /dev/zero; seq 5 9) >packed/mixed
yes line | head -c 3000001 >packed/odd
head -c 2000000 /dev/zero >packed/zeros
seq 1 100000 >packed/changed
seq 7 5000 | dd of=packed/changed bs=1000 seek=77 conv=notrunc 2>/dev/null
for name in a b c; do echo $name >attributes/$name; done
setfattr -n user.small -v value attributes/a
setfattr -n user.large -v "$(seq 1 600)" attributes/b
setfattr -n user.small -v again attributes/b
setfattr -n trusted.of-root -v t attributes/c
setfattr -n security.something -v s attributes/c
setfattr -n system.posix_acl_access -v 0x0200000001000600ffffffff02000700e803000004000400ffffffff10000700ffffffff20000400ffffffff attributes/c
setfattr -n system.posix_acl_default -v 0x0200000001000700ffffffff04000500ffffffff20000500ffffffff attributes
"#;

/// A file through the double indirect node, made on the first volume behind its listing: the guest
/// would take minutes to read it.
const HUGE: &str = "before=$(stat -c %Y /mnt)\n\
    echo at the end | dd of=/mnt/huge bs=1 seek=9000000000 2>/dev/null\n\
    echo at the begin | dd of=/mnt/huge bs=1 conv=notrunc 2>/dev/null\ntouch -d @$before /mnt\n";
const HUGE_DATA: &str = "data\thuge\t0-4096 8999997440-9000000011 t\\x20the\\x20end\\x0a";

/// Runs the trial and prints what it saw; an error where something does not hold.
pub fn run(arguments: &[String]) -> Result<bool> {
    let options = Options::parse(arguments, &[KEEP], &["--seed", "--mib"], 0)?;
    Trial::run("f2fs", &options, |trial| {
        LinuxWrites { trial, seed: options.number("--seed", 1)?, mib: options.number("--mib", 12)? }.run()
    })
}

struct LinuxWrites<'a> {
    trial: &'a Trial,
    seed: u64,
    mib: u64,
}

impl LinuxWrites<'_> {
    fn run(&self) -> Result<()> {
        let (lister, checker) = (build_lister()?, build_example("f2fs-check")?);
        self.linux_writes()?;
        for volume in &VOLUMES {
            let linux = self.trial.manifest(volume.name, "linux")?;
            let looked_for: Vec<&str> = LOOKED_FOR.iter().map(|(path, _)| *path).collect();
            let (ours, told) = list(&lister, &self.trial.image(volume.name), &looked_for)?;
            linux.must_equal(&ours, &format!("{}: as Linux lists it / as nandkit does", volume.name))?;
            ensure!(!told.contains("note\t"), "{}: notes of a whole volume:\n{told}", volume.name);
            let huge = told.lines().filter(|line| line.starts_with("data\t")).collect::<Vec<_>>();
            let expected: &[&str] = if volume.name == "plain" { &[HUGE_DATA] } else { &[] };
            ensure!(huge == expected, "{}: {huge:?}, not {expected:?}", volume.name);
            // The cases to be judged must have occurred: files that shrank, names by the hash of
            // their folded form.
            let number = |word: &str| -> u64 {
                let line = told.lines().find_map(|line| line.strip_prefix(word));
                line.and_then(|rest| rest.split('\t').nth(1)?.parse().ok()).unwrap_or(0)
            };
            ensure!((number("compressed") >= 3) == volume.mkfs.contains("compression"), "{}: {told}", volume.name);
            ensure!((number("hashed") >= 700) == volume.mkfs.contains("casefold"), "{}: {told}", volume.name);
            if !volume.first.is_empty() {
                for (path, there) in LOOKED_FOR {
                    let expected = format!("{}\t{path}", if there { "found" } else { "absent" });
                    ensure!(told.lines().any(|line| line == expected), "{}: not {expected}\n{told}", volume.name);
                }
            }
            let checked = check(&checker, &self.trial.image(volume.name))?;
            println!("{}: {} entries, the same to Linux and to nandkit; checked: {checked}", volume.name, linux.len());
        }
        self.changed(&lister, &checker)?;
        // Copied while it was mounted, after an fsync: the checkpoint's tree, and a note of what is
        // behind it.
        let (ours, told) = list(&lister, &self.trial.image("unclean"), &[])?;
        let checkpoint = self.trial.manifest("unclean", "linux")?;
        checkpoint.must_equal(&ours, "unclean: as it was at the last checkpoint / as nandkit lists it")?;
        ensure!(told.contains("note\tNotReplayed"), "unclean: no note of fsynced data:\n{told}");
        check(&checker, &self.trial.image("unclean"))?;
        println!("unclean: the last checkpoint's tree, and a note of what was fsynced since; checked");
        Ok(())
    }

    /// nandkit changes what Linux wrote, everywhere in it, and Linux must see the tree that nandkit
    /// does.
    fn changed(&self, lister: &Path, checker: &Path) -> Result<()> {
        let changer = build_example("f2fs-change")?;
        let (mut script, mut letters) = (String::new(), 'a'..='z');
        let mut guest = Guest::new(&self.trial.kernel, "f2fs-changed").share(&self.trial.work).timeout(TIMEOUT);
        guest = guest.module("quota_v2").module("f2fs");
        let volumes = || VOLUMES.iter();
        for VolumeRecipe { name, mount, .. } in volumes() {
            let image = self.trial.image(name);
            let mut words = Command::new(&changer);
            words.arg(&image).args([self.seed.to_string().as_str(), "4000", "everywhere"]);
            let told = process::output(&mut words)?;
            fsck_f2fs(&image).with_context(|| format!("{name}, changed by nandkit"))?;
            println!("{name}: {}; checked: {}", told.trim(), check(checker, &image)?);
            guest = guest.disk(&self.trial.disk(name)?);
            let letter = letters.next().context("more disks than letters")?;
            script += &format!(
                "mount -t f2fs -o {mount} /dev/vd{letter} /mnt\nhelper manifest /mnt >/share/{name}.changed\numount /mnt\n"
            );
        }
        // Before Linux mounts them: a mount may write.
        let ours: Vec<_> =
            volumes().map(|volume| list(lister, &self.trial.image(volume.name), &[])).collect::<Result<_>>()?;
        guest.run(&script)?.success()?;
        for (VolumeRecipe { name, .. }, (ours, _)) in volumes().zip(ours) {
            let linux = self.trial.manifest(name, "changed")?;
            linux.must_equal(&ours, &format!("{name}, changed by nandkit: as Linux lists it / as nandkit does"))?;
            fsck_f2fs(&self.trial.image(name)).with_context(|| format!("{name}, mounted by Linux once more"))?;
            println!("{name}: {} entries after nandkit changed it, the same to Linux and to nandkit", linux.len());
        }
        Ok(())
    }

    /// One boot; each volume is a disk.
    fn linux_writes(&self) -> Result<()> {
        let mut guest = Guest::new(&self.trial.kernel, "f2fs").share(&self.trial.work).timeout(TIMEOUT);
        guest = guest.module("quota_v2").module("f2fs");
        let mut script = PROGRAMS.to_owned();
        for (volume, letter) in VOLUMES.iter().zip('a'..) {
            guest = guest.disk(&self.trial.new_disk(volume.name, VOLUME_MIB)?);
            script += &self.script(volume, letter);
        }
        script += &format!("mount -t f2fs /dev/vda /mnt\n{HUGE}umount /mnt\n");
        let letter = char::from(b'a' + VOLUMES.len() as u8);
        for name in ["unclean-first", "unclean"] {
            guest = guest.disk(&self.trial.new_disk(name, VOLUME_MIB)?);
        }
        script += &unclean(letter, char::from(letter as u8 + 1));
        let outcome = guest.run(&script)?.success()?;
        println!(
            "{} volumes written by Linux {}: {:.0} s",
            VOLUMES.len(),
            self.trial.kernel.version,
            outcome.took.as_secs_f64()
        );
        Ok(())
    }

    fn script(&self, volume: &VolumeRecipe, letter: char) -> String {
        let VolumeRecipe { name, mkfs, mount, first } = volume;
        let (seed, mib) = (self.seed, self.mib);
        format!(
            "mkfs.f2fs -q -f {mkfs} /dev/vd{letter}\nmount -t f2fs -o {mount} /dev/vd{letter} /mnt\ncd /mnt\n{first}{WORK}\
             mkdir tree churned\nhelper tree /mnt/tree {seed} 12\nhelper churn /mnt/churned {seed} 70 {mib}\nsync\n\
             rm -f holes/large many/a/none\nhead -c 14000000 /dev/urandom >holes/large\ncd /\n\
             umount /mnt\nmount -t f2fs -o {mount} /dev/vd{letter} /mnt\nhelper manifest /mnt >/share/{name}.linux\numount /mnt\n"
        )
    }
}

/// A volume that is copied while it is mounted, with data that were fsynced behind the last
/// checkpoint.
fn unclean(from: char, to: char) -> String {
    format!(
        "mkfs.f2fs -q -f /dev/vd{from}\nmount -t f2fs /dev/vd{from} /mnt\nmkdir /mnt/d\nseq 1 9000 >/mnt/d/before\n\
         sync\nhelper manifest /mnt >/share/unclean.linux\n\
         seq 1 7000 | dd of=/mnt/d/behind conv=fsync 2>/dev/null\n\
         dd if=/dev/vd{from} of=/dev/vd{to} bs=1M 2>/dev/null\nsync\numount /mnt\n"
    )
}

/// A volume that Linux wrote has no fault to nandkit's check; what it counted.
fn check(checker: &Path, image: &Path) -> Result<String> {
    let text = process::output(Command::new(checker).arg(image))?;
    let last = text.lines().last().and_then(|line| line.split_once("; ")).map(|(_, counts)| counts.to_owned());
    last.with_context(|| format!("{}: {text}", image.display()))
}

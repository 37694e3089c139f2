//! `cargo xtask kernel f2fs-recover`: volumes that did not end cleanly, recovered by Linux and by
//! nandkit. What Linux fsynced, nandkit's roll-forward brings back as Linux's does, and the other
//! way round; fsck.f2fs finds nothing in what either leaves.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::f2fs_tools::{TIMEOUT, build_example, build_lister, fsck_f2fs, list};
use super::guest::Guest;
use super::trial::{KEEP, Trial};
use crate::options::Options;
use crate::process;

const VOLUME_MIB: u64 = 256;

/// Volumes that Linux writes: name, and options of mkfs.f2fs.
const LINUX: [(&str, &str); 3] =
    [("plain", ""), ("extra", "-O extra_attr,inode_checksum,inode_crtime,flexible_inline_xattr"), ("sections", "-s 4")];

/// Volumes that nandkit writes, by their seeds.
const OURS: [(&str, u64); 3] = [("ours-1", 1), ("ours-2", 2), ("ours-3", 3)];

/// What Linux does before and behind the last checkpoint; each change of the second part is
/// fsynced. `dd` without input fsyncs alone.
const WORK: &str = r#"
fsynced() { dd if=/dev/null of=$1 conv=notrunc,fsync 2>/dev/null; }
mkdir d e
number=0
while [ $number -lt 200 ]; do seq 1 $((number * 20)) >d/before$number; number=$((number + 1)); done
head -c 9000000 /dev/urandom >e/large
setfattr -n user.before -v value d/before7
exec 3>e/open
head -c 100000 /dev/urandom >&3
rm e/open
sync
number=0
while [ $number -lt 150 ]; do
    echo $number | dd of=d/new$number conv=fsync 2>/dev/null
    seq $number 3000 | dd of=d/before$number conv=notrunc,fsync 2>/dev/null
    number=$((number + 1))
done
seq 1 500 | dd of=d/before160 oflag=append conv=notrunc,fsync 2>/dev/null
head -c 100000 /dev/urandom | dd of=d/before161 seek=4000 conv=notrunc,fsync 2>/dev/null
truncate -s 17 d/before162; fsynced d/before162
truncate -s 900000 d/before163; fsynced d/before163
head -c 5000000 /dev/urandom | dd of=d/behind bs=1M seek=1 conv=fsync 2>/dev/null
head -c 70000 /dev/urandom | dd of=e/large bs=4k seek=1500 conv=notrunc,fsync 2>/dev/null
setfattr -n user.behind -v "$(seq 1 500)" d/before8; fsynced d/before8
setfattr -n user.before -v other d/before7; fsynced d/before7
chmod 600 d/before9; chown 7:9 d/before9; fsynced d/before9
rm d/before10; seq 1 4000 | dd of=d/before10 conv=fsync 2>/dev/null
echo small | dd of=d/grown conv=fsync 2>/dev/null
seq 1 3000 | dd of=d/grown conv=notrunc,fsync 2>/dev/null
"#;

/// Runs the trial and prints what it saw; an error where something does not hold.
pub fn run(arguments: &[String]) -> Result<bool> {
    let options = Options::parse(arguments, &[KEEP], &[], 0)?;
    Trial::run("f2fs-recover", &options, recover)
}

fn recover(trial: &Trial) -> Result<()> {
    let (lister, recoverer) = (build_lister()?, build_example("f2fs-recover")?);
    linux_writes(trial)?;
    for (name, seed) in OURS {
        process::output(Command::new(&recoverer).arg("--cut").arg(trial.image(name)).arg(seed.to_string()))?;
    }
    let names: Vec<&str> = LINUX.iter().map(|(name, _)| *name).chain(OURS.iter().map(|(name, _)| *name)).collect();
    for name in &names {
        fs::copy(trial.image(name), trial.image(&format!("{name}-linux")))?;
    }
    linux_recovers(trial, &names)?;
    for name in names {
        let said = process::output(Command::new(&recoverer).arg(trial.image(name)))?;
        fsck_f2fs(&trial.image(name)).with_context(|| format!("{name}, recovered by nandkit"))?;
        fsck_f2fs(&trial.image(&format!("{name}-linux"))).with_context(|| format!("{name}, by Linux"))?;
        let linux = trial.manifest(name, "linux")?.without_directory_times();
        let (ours, told) = list(&lister, &trial.image(name), &[])?;
        let what = format!("{name}: as Linux recovers it / as nandkit does");
        linux.must_equal(&ours.without_directory_times(), &what)?;
        ensure!(!told.contains("note\t"), "{name}: notes of a whole volume:\n{told}");
        println!("{name}: {} entries, the same recovered by Linux and by nandkit: {}", linux.len(), said.trim());
    }
    Ok(())
}

/// One boot; each volume is copied while it is mounted.
fn linux_writes(trial: &Trial) -> Result<()> {
    let mut guest = Guest::new(&trial.kernel, "f2fs-recover").timeout(TIMEOUT).module("f2fs");
    let mut script = String::new();
    for (index, (name, mkfs)) in LINUX.iter().enumerate() {
        let letter = |number: usize| char::from(b'a' + number as u8);
        let (from, to) = (letter(2 * index), letter(2 * index + 1));
        for name in [&format!("{name}-first"), *name] {
            guest = guest.disk(&trial.new_disk(name, VOLUME_MIB)?);
        }
        script += &format!(
            "mkfs.f2fs -q -f {mkfs} /dev/vd{from}\nmount -t f2fs /dev/vd{from} /mnt\ncd /mnt\n{WORK}\
             dd if=/dev/vd{from} of=/dev/vd{to} bs=1M 2>/dev/null\nexec 3>&-\nsync\ncd /\numount /mnt\n"
        );
    }
    let outcome = guest.run(&script)?.success()?;
    println!("{} volumes cut off in Linux {}: {:.0} s", LINUX.len(), trial.kernel.version, outcome.took.as_secs_f64());
    Ok(())
}

fn linux_recovers(trial: &Trial, names: &[&str]) -> Result<()> {
    let mut guest = Guest::new(&trial.kernel, "f2fs-recovers").share(&trial.work).timeout(TIMEOUT).module("f2fs");
    let mut script = String::new();
    for (name, letter) in names.iter().zip('a'..) {
        guest = guest.disk(&trial.disk(&format!("{name}-linux"))?);
        script +=
            &format!("mount -t f2fs /dev/vd{letter} /mnt\nhelper manifest /mnt >/share/{name}.linux\numount /mnt\n");
    }
    let outcome = guest.run(&script)?.success()?;
    println!("{} volumes recovered by Linux: {:.0} s", names.len(), outcome.took.as_secs_f64());
    Ok(())
}

//! `cargo xtask kernel f2fs-recover`: volumes that did not end cleanly, recovered by Linux and by nandkit. What Linux fsynced, nandkit's roll-forward brings back as Linux's does, and the other way round; fsck.f2fs finds
//! nothing in what either leaves.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::build::{self, Kernel};
use super::f2fs::{build_example, build_lister, list};
use super::f2fs_made::fsck_f2fs;
use super::guest::Guest;
use super::manifest::Manifest;
use crate::options::Options;
use crate::process;

/// Far more than anything takes on a loaded machine.
const TIMEOUT: Duration = Duration::from_secs(1800);

const VOLUME_MIB: u64 = 256;

/// Volumes that Linux writes: name, and options of mkfs.f2fs.
const LINUX: [(&str, &str); 3] =
    [("plain", ""), ("extra", "-O extra_attr,inode_checksum,inode_crtime,flexible_inline_xattr"), ("sections", "-s 4")];

/// Volumes that nandkit writes, by their seeds.
const OURS: [(&str, u64); 3] = [("ours-1", 1), ("ours-2", 2), ("ours-3", 3)];

/// What Linux does before and behind the last checkpoint; each change of the second part is fsynced. `dd` without input fsyncs alone.
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
    let options = Options::parse(arguments, &["--keep"], &[], 0)?;
    let start = Instant::now();
    let kernel = build::build()?;
    let trial = Trial { work: kernel.directory.join(format!("f2fs-recover-{}", std::process::id())), kernel };
    fs::create_dir_all(&trial.work)?;
    trial.run().with_context(|| format!("files in {}", trial.work.display()))?;
    if options.flag("--keep") {
        println!("files in {}", trial.work.display());
    } else {
        fs::remove_dir_all(&trial.work)?;
    }
    println!("kernel f2fs-recover: passed in {:.0} s", start.elapsed().as_secs_f64());
    Ok(true)
}

struct Trial {
    kernel: Kernel,
    work: PathBuf,
}

impl Trial {
    fn run(&self) -> Result<()> {
        let (lister, recoverer) = (build_lister()?, build_example("f2fs-recover")?);
        self.linux_writes()?;
        for (name, seed) in OURS {
            process::output(Command::new(&recoverer).arg("--cut").arg(self.image(name)).arg(seed.to_string()))?;
        }
        let names: Vec<&str> = LINUX.iter().map(|(name, _)| *name).chain(OURS.iter().map(|(name, _)| *name)).collect();
        for name in &names {
            fs::copy(self.image(name), self.image(&format!("{name}-linux")))?;
        }
        self.linux_recovers(&names)?;
        for name in names {
            let said = process::output(Command::new(&recoverer).arg(self.image(name)))?;
            fsck_f2fs(&self.image(name)).with_context(|| format!("{name}, recovered by nandkit"))?;
            fsck_f2fs(&self.image(&format!("{name}-linux"))).with_context(|| format!("{name}, by Linux"))?;
            let linux = Manifest::of_file(&self.work.join(format!("{name}.linux")))?.without_directory_times();
            let (ours, told) = list(&lister, &self.image(name), &[])?;
            let what = format!("{name}: as Linux recovers it / as nandkit does");
            linux.must_equal(&ours.without_directory_times(), &what)?;
            ensure!(!told.contains("note\t"), "{name}: notes of a whole volume:\n{told}");
            println!("{name}: {} entries, the same recovered by Linux and by nandkit: {}", linux.len(), said.trim());
        }
        Ok(())
    }

    fn image(&self, name: &str) -> PathBuf {
        self.work.join(format!("{name}.img"))
    }

    fn disk(&self, name: &str) -> Result<String> {
        let path: PathBuf = self.image(name);
        Ok(path.to_str().context("a path that is no text")?.to_owned())
    }

    /// One boot; each volume is copied while it is mounted.
    fn linux_writes(&self) -> Result<()> {
        let mut guest = Guest::new(&self.kernel, "f2fs-recover").timeout(TIMEOUT).module("f2fs");
        let mut script = String::new();
        for (index, (name, mkfs)) in LINUX.iter().enumerate() {
            let letter = |number: usize| char::from(b'a' + number as u8);
            let (from, to) = (letter(2 * index), letter(2 * index + 1));
            for name in [&format!("{name}-first"), *name] {
                create(&self.image(name))?;
                guest = guest.disk(&self.disk(name)?);
            }
            script += &format!(
                "mkfs.f2fs -q -f {mkfs} /dev/vd{from}\nmount -t f2fs /dev/vd{from} /mnt\ncd /mnt\n{WORK}\
                 dd if=/dev/vd{from} of=/dev/vd{to} bs=1M 2>/dev/null\nexec 3>&-\nsync\ncd /\numount /mnt\n"
            );
        }
        let outcome = guest.run(&script)?.success()?;
        println!(
            "{} volumes cut off in Linux {}: {:.0} s",
            LINUX.len(),
            self.kernel.version,
            outcome.took.as_secs_f64()
        );
        Ok(())
    }

    fn linux_recovers(&self, names: &[&str]) -> Result<()> {
        let mut guest = Guest::new(&self.kernel, "f2fs-recovers").share(&self.work).timeout(TIMEOUT).module("f2fs");
        let mut script = String::new();
        for (name, letter) in names.iter().zip('a'..) {
            guest = guest.disk(&self.disk(&format!("{name}-linux"))?);
            script += &format!(
                "mount -t f2fs /dev/vd{letter} /mnt\nhelper manifest /mnt >/share/{name}.linux\numount /mnt\n"
            );
        }
        let outcome = guest.run(&script)?.success()?;
        println!("{} volumes recovered by Linux: {:.0} s", names.len(), outcome.took.as_secs_f64());
        Ok(())
    }
}

fn create(path: &Path) -> Result<()> {
    Ok(fs::File::create(path)?.set_len(VOLUME_MIB << 20)?)
}

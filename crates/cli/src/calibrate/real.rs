//! A file or block device of this machine, past the host's cache, in real time.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

use nandkit_lab::calibrate::{Target, TargetShape};
use nandkit_units::Nanos;
use nandkit_units::random::Random;
use rustix::fs::OFlags;

use crate::failure::Failure;

/// More than any device asks of a buffer.
const ALIGNMENT: usize = 4096;
/// The largest request.
const LARGEST: usize = 16 << 20;

/// A file or block device.
pub struct RealTarget {
    file: File,
    shape: TargetShape,
    /// Holds what is read and written, from `start` on: the kernel asks for whole pages of memory.
    buffer: Vec<u8>,
    start: usize,
}

fn refused(path: &Path, detail: impl std::fmt::Display) -> Failure {
    Failure::Input(format!("{}: {detail}", path.display()))
}

impl RealTarget {
    /// Opens it; for reading only, unless it may be written. Errors: it is neither a file nor a
    /// block device; it is mounted or in use; its file system has no way past the cache.
    pub fn open(path: &Path, writes: bool) -> Result<Self, Failure> {
        let found = fs::metadata(path).map_err(|error| refused(path, format!("cannot look at it: {error}")))?;
        let is_device = found.file_type().is_block_device();
        if !is_device && !found.is_file() {
            return Err(refused(path, "expected a plain file or a block device"));
        }
        if let Some(user) = in_use(path, is_device.then(|| found.rdev())) {
            return Err(refused(path, format!("it is in use: {user}; expected a target that nobody has mounted")));
        }
        let mut flags = OFlags::DIRECT;
        // Refused by the kernel where it is mounted, or part of another device.
        flags.set(OFlags::EXCL, is_device);
        // A write has ended when it is safe: what flashbench and P1 measure.
        flags.set(OFlags::DSYNC, writes);
        let opened = OpenOptions::new().read(true).write(writes).custom_flags(flags.bits().cast_signed()).open(path);
        let file = opened.map_err(|error| refused(path, why_not_opened(&error)))?;
        lock(&file, path, writes)?;
        let mut buffer = vec![0; LARGEST + ALIGNMENT];
        // What cards cannot compress.
        Random::new(1, "calibrate").fill(&mut buffer);
        let start = buffer.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        let shape = TargetShape { capacity: 0, sector_size: 512, page_size: 4096, unit: 0 };
        let mut target = Self { file, shape, buffer, start };
        target.measure_shape(path, is_device.then(|| found.rdev()))?;
        Ok(target)
    }

    fn measure_shape(&mut self, path: &Path, device: Option<u64>) -> Result<(), Failure> {
        let length = self.file.seek(SeekFrom::End(0));
        let length = length.map_err(|error| refused(path, format!("cannot tell its length: {error}")))?;
        let sector_size = match device {
            Some(_) => rustix::fs::ioctl_blksszget(&self.file).unwrap_or(512),
            // Some file systems take whole blocks alone past the cache.
            None if length >= 1024 && self.pass(false, 512, 512).is_err() => 4096,
            None => 512,
        };
        let unit = device.and_then(erase_size_of).unwrap_or(0);
        let capacity = length / u64::from(sector_size.max(1)) * u64::from(sector_size);
        self.shape = TargetShape { capacity, sector_size, page_size: sector_size.max(4096), unit };
        Ok(())
    }

    fn pass(&mut self, is_write: bool, at: u64, bytes: u32) -> io::Result<Nanos> {
        let end = self.start + bytes as usize;
        let Some(part) = self.buffer.get_mut(self.start..end) else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a request beyond 16 MiB"));
        };
        let begun = Instant::now();
        match is_write {
            true => self.file.write_all_at(part, at)?,
            false => self.file.read_exact_at(part, at)?,
        }
        Ok(Nanos(u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl Target for RealTarget {
    fn shape(&self) -> TargetShape {
        self.shape
    }

    fn read(&mut self, at: u64, bytes: u32) -> Result<Nanos, String> {
        self.pass(false, at, bytes).map_err(|error| format!("cannot read {bytes} bytes at byte {at}: {error}"))
    }

    fn write(&mut self, at: u64, bytes: u32) -> Result<Nanos, String> {
        self.pass(true, at, bytes).map_err(|error| format!("cannot write {bytes} bytes at byte {at}: {error}"))
    }
}

fn why_not_opened(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ResourceBusy => "it is in use: mounted, or a part of another device".to_string(),
        io::ErrorKind::InvalidInput => {
            "its file system has no way past the cache (O_DIRECT), so that memory would be measured; expected a file elsewhere"
                .to_string()
        }
        _ => format!("cannot open it: {error}"),
    }
}

/// Keeps away others of this program, as its other commands do.
fn lock(file: &File, path: &Path, writes: bool) -> Result<(), Failure> {
    let locked = if writes { file.try_lock() } else { file.try_lock_shared() };
    match locked {
        Ok(()) => Ok(()),
        Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => Ok(()),
        Err(TryLockError::WouldBlock) => Err(refused(path, "it is in use: another process has it open")),
        Err(TryLockError::Error(error)) => Err(refused(path, format!("cannot lock it: {error}"))),
    }
}

/// Who uses a device or file, in words: a mount of it or of one of its partitions
/// (proc_pid_mountinfo(5)), or a loop device that shows the file.
fn in_use(path: &Path, device: Option<u64>) -> Option<String> {
    let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let Some(device) = device else { return shown_by(&real).map(|name| format!("{name} shows it")) };
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let own = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    let folder = sysfs(&own);
    let mut numbers = vec![own];
    // Its partitions: each a folder with its number.
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let number =
            fs::read_to_string(entry.path().join("dev")).ok().filter(|_| entry.path().join("partition").exists());
        numbers.extend(number.map(|number| number.trim().to_string()));
    }
    mounted_at(&mounts, &numbers, &real.to_string_lossy()).map(|place| format!("mounted at {place}"))
}

fn sysfs(number: &str) -> PathBuf {
    let link = Path::new("/sys/dev/block").join(number);
    fs::canonicalize(&link).unwrap_or(link)
}

/// Where a file system of one of these devices is mounted.
fn mounted_at(mounts: &str, numbers: &[String], name: &str) -> Option<String> {
    mounts.lines().find_map(|line| {
        let mut words = line.split(' ');
        let (number, place) = (words.nth(2)?, words.nth(1)?);
        // Some file systems have a number of their own: there the source tells.
        let source = line.split(" - ").nth(1).and_then(|rest| rest.split(' ').nth(1));
        (numbers.iter().any(|own| own == number) || source == Some(name)).then(|| place.to_string())
    })
}

/// The loop device that shows a file (sysfs, block/loopN/loop/backing_file).
fn shown_by(file: &Path) -> Option<String> {
    fs::read_dir("/sys/block").into_iter().flatten().flatten().find_map(|entry| {
        let backing = fs::read_to_string(entry.path().join("loop/backing_file")).ok()?;
        let name = entry.file_name().to_string_lossy().into_owned();
        (Path::new(backing.trim_end()) == file).then(|| format!("/dev/{name}"))
    })
}

/// Bytes of the unit that an SD card or eMMC tells (the kernel's `preferred_erase_size`).
fn erase_size_of(device: u64) -> Option<u64> {
    let folder = sysfs(&format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device)));
    let files = ["device/preferred_erase_size", "../device/preferred_erase_size"];
    files.into_iter().find_map(|file| fs::read_to_string(folder.join(file)).ok()?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "22 28 0:20 / /sys rw,nosuid - sysfs sysfs rw\n\
        28 1 8:2 / / rw,relatime shared:1 - ext4 /dev/sda2 rw\n\
        95 28 179:1 / /media/a\\040card rw - vfat /dev/mmcblk0p1 rw\n\
        96 28 0:45 /@ /home rw - btrfs /dev/sdb rw\n";

    #[test]
    fn a_mount_is_found_by_number_or_source() {
        let find = |numbers: &[&str], name: &str| {
            let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
            mounted_at(MOUNTS, &numbers, name)
        };
        assert_eq!(find(&["8:2"], "/dev/sda2").as_deref(), Some("/"));
        assert_eq!(find(&["179:0", "179:1"], "/dev/mmcblk0").as_deref(), Some("/media/a\\040card"), "a partition");
        assert_eq!(find(&["8:16"], "/dev/sdb").as_deref(), Some("/home"), "a number of its own");
        assert_eq!(find(&["8:3", "79:1"], "/dev/sda"), None);
        assert_eq!(mounted_at("", &["8:2".to_string()], "x"), None);
    }
}

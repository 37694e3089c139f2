//! Attributes, kinds, device numbers and times between the file system and the kernel.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{Errno, FileAttr, FileType, INodeNo};
use nandkit_vfs::{Attributes, FileKind, Timestamp};

use crate::answer::FaultResult;
use crate::options::Owner;

/// The set-user-id bit.
pub(crate) const SET_UID: u16 = 0o4000;
/// The set-group-id bit.
pub(crate) const SET_GID: u16 = 0o2000;
/// Permission bits and those above.
pub(crate) const MODE_BITS: u16 = 0o7777;
/// The bits of a mode that are the kind (inode(7)).
const KIND_BITS: u32 = 0o170_000;
/// The kernel's unit of allocated space, in bytes.
const SECTOR: u64 = 512;

pub(crate) const fn file_type(kind: FileKind) -> FileType {
    match kind {
        FileKind::Regular => FileType::RegularFile,
        FileKind::Directory => FileType::Directory,
        FileKind::Symlink => FileType::Symlink,
        FileKind::BlockDevice => FileType::BlockDevice,
        FileKind::CharacterDevice => FileType::CharDevice,
        FileKind::Fifo => FileType::NamedPipe,
        FileKind::Socket => FileType::Socket,
    }
}

/// The file type in a mode of mknod(2), which makes neither directories nor links.
pub(crate) const fn kind_to_make(mode: u32) -> Option<FileKind> {
    match FileKind::of_mode(mode) {
        Some(FileKind::Directory | FileKind::Symlink) => None,
        None if mode & KIND_BITS == 0 => Some(FileKind::Regular),
        kind => kind,
    }
}

/// A device number in the form of the kernel's protocol (linux/kdev_t.h, `new_encode_dev`): 12 bits
/// of major, 20 of minor. Larger numbers do not exist in Linux.
pub(crate) const fn device_outside(device: u64) -> u32 {
    let (major, minor) = (device >> 32, device & 0xFFFF_FFFF);
    if major > 0xFFF || minor > 0xF_FFFF {
        return 0;
    }
    ((minor & 0xFF) | (major << 8) | ((minor & !0xFF) << 12)) as u32
}

/// The device number from the kernel's form.
pub(crate) const fn device_inside(device: u32) -> u64 {
    let (major, minor) = ((device >> 8) & 0xFFF, (device & 0xFF) | ((device >> 12) & 0xF_FF00));
    (major as u64) << 32 | minor as u64
}

/// A time in the form of the standard library; times before 1970 are negative.
pub(crate) fn time_outside(time: Timestamp) -> SystemTime {
    let span = Duration::from_nanos(time.0.unsigned_abs());
    let shown = if time.0 < 0 { UNIX_EPOCH.checked_sub(span) } else { UNIX_EPOCH.checked_add(span) };
    shown.unwrap_or(UNIX_EPOCH)
}

/// A time stamp from the kernel's time. Times outside the 292 years around 1970 are clamped. The
/// kernel's seconds before 1970 are negative and its nanoseconds count upwards; fuser 0.18
/// (time.rs, `system_time_from_time`) takes both off, which is undone here.
pub(crate) fn time_inside(time: SystemTime) -> Timestamp {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => Timestamp(i64::try_from(after.as_nanos()).unwrap_or(i64::MAX)),
        Err(before) => {
            let span = before.duration();
            let whole = i64::try_from(span.as_secs()).ok().and_then(|seconds| seconds.checked_mul(-1_000_000_000));
            Timestamp(whole.map_or(i64::MIN, |whole| whole.saturating_add(i64::from(span.subsec_nanos()))))
        }
    }
}

/// Attributes in the kernel's form. Error: EIO for a size that the kernel would refuse together
/// with the whole answer.
pub(crate) fn attributes(
    inode: INodeNo,
    of: &Attributes,
    block_size: u32,
    owner: Option<Owner>,
) -> FaultResult<FileAttr> {
    if i64::try_from(of.size).is_err() {
        return Err(Errno::EIO.into());
    }
    let (uid, gid) = owner.map_or((of.uid, of.gid), |owner| (owner.uid.unwrap_or(of.uid), owner.gid.unwrap_or(of.gid)));
    Ok(FileAttr {
        ino: inode,
        size: of.size,
        blocks: of.allocated.div_ceil(SECTOR),
        atime: time_outside(of.accessed),
        mtime: time_outside(of.modified),
        ctime: time_outside(of.changed),
        crtime: time_outside(of.created.unwrap_or_default()),
        kind: file_type(of.kind),
        perm: of.mode & MODE_BITS,
        nlink: of.links,
        uid,
        gid,
        rdev: device_outside(of.device),
        blksize: block_size,
        flags: 0,
    })
}

/// Whether the kernel accepts a name; it drops a whole directory for an invalid one.
pub(crate) fn is_name(name: &[u8]) -> bool {
    // FUSE_NAME_MAX, fs/fuse/fuse_i.h.
    const NAME_MAX: usize = 1024;
    !name.is_empty()
        && name.len() <= NAME_MAX
        && name != b"."
        && name != b".."
        && !name.iter().any(|byte| matches!(byte, 0 | b'/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_numbers_go_there_and_back() {
        for (major, minor, outside) in
            [(1, 3, 0x103), (8, 17, 0x811), (259, 0x12345, 0x1231_0345), (0xFFF, 0xF_FFFF, u32::MAX)]
        {
            let inside = (major << 32) | minor;
            assert_eq!((device_outside(inside), device_inside(outside)), (outside, inside), "{major}:{minor}");
        }
        assert_eq!(device_outside(0x1000 << 32), 0);
    }

    #[test]
    fn times_are_the_kernels() {
        for ns in [0, 1, -1, 1_600_000_000_123_456_789, -1_600_000_000_123_456_789] {
            // As fuser decodes the kernel's time, which comes from time_outside.
            let (seconds, rest) = (i64::div_euclid(ns, 1_000_000_000), i64::rem_euclid(ns, 1_000_000_000));
            let whole = Duration::new(seconds.unsigned_abs(), rest as u32);
            let by_fuser = if seconds < 0 { UNIX_EPOCH - whole } else { UNIX_EPOCH + whole };
            assert_eq!(time_inside(by_fuser), Timestamp(ns));
            let away = Duration::from_nanos(ns.unsigned_abs());
            assert_eq!(time_outside(Timestamp(ns)), if ns < 0 { UNIX_EPOCH - away } else { UNIX_EPOCH + away });
        }
    }

    #[test]
    fn names_that_the_kernel_refuses_are_none() {
        for name in [&b""[..], b".", b"..", b"a/b", b"a\0b", &[b'x'; 1025]] {
            assert!(!is_name(name), "{}", name.escape_ascii());
        }
        assert!(is_name(b"...") && is_name(b"a\nb") && is_name(&[0xFF; 255]));
    }
}

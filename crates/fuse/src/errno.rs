//! The table of error numbers, which are those of Linux's own drivers.

use fuser::Errno;
use nandkit_vfs::ErrorKind;

use crate::Operation;

/// Exceptions in which a driver of Linux returns another number than that of the kind: operation,
/// kind, number, and the source.
const SPECIAL: [(Operation, ErrorKind, Errno); 13] = [
    // fs/namei.c: a file system without the operation, such as fs/fat.
    (Operation::Link, ErrorKind::NotSupported, Errno::EPERM),
    (Operation::Symlink, ErrorKind::NotSupported, Errno::EPERM),
    (Operation::MakeNode, ErrorKind::NotSupported, Errno::EPERM),
    (Operation::MakeDirectory, ErrorKind::NotSupported, Errno::EPERM),
    // fs/fat/file.c: owners that the volume does not have.
    (Operation::SetAttributes, ErrorKind::NotSupported, Errno::EPERM),
    // fs/jffs2/dir.c and fs/fat/namei_vfat.c: unknown flags.
    (Operation::Rename, ErrorKind::NotSupported, Errno::EINVAL),
    // fs/fat/namei_vfat.c: an invalid name does not exist.
    (Operation::Lookup, ErrorKind::InvalidName, Errno::ENOENT),
    // A removed inode is a stale handle in operations without a name.
    (Operation::Stat, ErrorKind::NotFound, Errno::ESTALE),
    (Operation::Read, ErrorKind::NotFound, Errno::ESTALE),
    (Operation::Write, ErrorKind::NotFound, Errno::ESTALE),
    (Operation::SetAttributes, ErrorKind::NotFound, Errno::ESTALE),
    (Operation::Truncate, ErrorKind::NotFound, Errno::ESTALE),
    // fs/xattr.c: an unsupported prefix.
    (Operation::SetXattr, ErrorKind::InvalidName, Errno::EOPNOTSUPP),
];

/// The number for an error of this kind in this operation. Never ENOSYS, after which the kernel
/// stops sending the request.
pub(crate) fn errno(operation: Operation, kind: ErrorKind) -> Errno {
    let special = SPECIAL.iter().find(|(of, known, _)| (*of, *known) == (operation, kind));
    if let Some((_, _, errno)) = special {
        return *errno;
    }
    match kind {
        // fs/jffs2 and fs/fat return EIO for damage, not EUCLEAN.
        ErrorKind::Corrupt => Errno::EIO,
        kind => Errno::from_i32(kind.errno()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drivers_answers_go_before_the_kinds_own() {
        for (operation, kind, expected) in [
            (Operation::Link, ErrorKind::NotSupported, 1),
            (Operation::GetXattr, ErrorKind::NotSupported, 95),
            (Operation::Rename, ErrorKind::NotSupported, 22),
            (Operation::Lookup, ErrorKind::NotFound, 2),
            (Operation::Read, ErrorKind::NotFound, 116),
            (Operation::Read, ErrorKind::Corrupt, 5),
            (Operation::Write, ErrorKind::NoSpace, 28),
            (Operation::SetXattr, ErrorKind::AttributesTooBig, 7),
            (Operation::RemoveDirectory, ErrorKind::NotEmpty, 39),
        ] {
            assert_eq!(errno(operation, kind).code(), expected, "{operation:?}, {kind:?}");
        }
    }
}

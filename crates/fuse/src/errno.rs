//! The one table of error numbers: what Linux' own drivers answer.

use fuser::Errno;
use nandkit_vfs::ErrorKind;

use crate::Operation;

/// Where a driver of Linux answers something else than the kind's own number: the operation, the
/// kind, the number, and whose answer it is.
const SPECIAL: [(Operation, ErrorKind, Errno); 13] = [
    // fs/namei.c: a file system without the operation, as fs/fat is.
    (Operation::Link, ErrorKind::NotSupported, Errno::EPERM),
    (Operation::Symlink, ErrorKind::NotSupported, Errno::EPERM),
    (Operation::MakeNode, ErrorKind::NotSupported, Errno::EPERM),
    (Operation::MakeDirectory, ErrorKind::NotSupported, Errno::EPERM),
    // fs/fat/file.c: owners that the volume does not have.
    (Operation::SetAttributes, ErrorKind::NotSupported, Errno::EPERM),
    // fs/jffs2/dir.c and fs/fat/namei_vfat.c: flags that are not known.
    (Operation::Rename, ErrorKind::NotSupported, Errno::EINVAL),
    // fs/fat/namei_vfat.c: what cannot be a name is not there.
    (Operation::Lookup, ErrorKind::InvalidName, Errno::ENOENT),
    // An inode that is gone is a stale handle where no name is involved.
    (Operation::Stat, ErrorKind::NotFound, Errno::ESTALE),
    (Operation::Read, ErrorKind::NotFound, Errno::ESTALE),
    (Operation::Write, ErrorKind::NotFound, Errno::ESTALE),
    (Operation::SetAttributes, ErrorKind::NotFound, Errno::ESTALE),
    (Operation::Truncate, ErrorKind::NotFound, Errno::ESTALE),
    // fs/xattr.c: a prefix that nobody handles.
    (Operation::SetXattr, ErrorKind::InvalidName, Errno::EOPNOTSUPP),
];

/// The number for an error of this kind in this operation. Never ENOSYS: the kernel remembers that,
/// and asks no more.
pub(crate) fn errno(operation: Operation, kind: ErrorKind) -> Errno {
    let special = SPECIAL.iter().find(|(of, known, _)| (*of, *known) == (operation, kind));
    if let Some((_, _, errno)) = special {
        return *errno;
    }
    match kind {
        // fs/jffs2 and fs/fat answer EIO to what is damaged, not EUCLEAN.
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

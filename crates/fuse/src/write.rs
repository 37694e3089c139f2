//! Changes of content, attributes, and extended attributes.

use fuser::{Errno, FileAttr, INodeNo, Request};
use nandkit_units::Payload;
use nandkit_vfs::{AttributeChange, Attributes, Changes, ErrorKind, FileKind, FileSystem, FsError, InodeNumber, acl};

use crate::access::{is_plain, mode_of, with_mode};
use crate::answer::{Answer, FaultResult};
use crate::served_volume::ServedVolume;
use crate::translate::{MODE_BITS, SET_GID, SET_UID};
use crate::{Operation, Volume};

/// The extended attribute of file capabilities (capabilities(7)).
const CAPABILITY: &[u8] = b"security.capability";
/// Largest size of a value and of the list of names, in bytes (uapi/linux/limits.h).
pub(crate) const XATTR_MAX: usize = 65_536;
/// setxattr(2): the attribute must not exist.
const XATTR_CREATE: i32 = 1;
/// setxattr(2): the attribute must exist.
const XATTR_REPLACE: i32 = 2;
/// fallocate(2): keep the size.
const KEEP_SIZE: i32 = 1;
/// fallocate(2): the range becomes a hole.
const PUNCH_HOLE: i32 = 2;

fn is_missing(error: &FsError) -> bool {
    error.kind == ErrorKind::NoAttribute
}

/// The mode without set-user-id, and without set-group-id if the group may execute (otherwise that
/// bit has another meaning).
const fn without_rights(mode: u16) -> u16 {
    let mode = mode & !SET_UID;
    if mode & 0o010 != 0 { mode & !SET_GID } else { mode }
}

impl<V: Volume> ServedVolume<V> {
    /// Writes data; `kills` means that set-user-id bits must be dropped.
    pub(crate) fn write(&self, inode: INodeNo, offset: u64, data: &[u8], kills: bool) -> Answer<usize> {
        let inode = self.inside(inode);
        if offset.checked_add(data.len() as u64).is_none_or(|end| i64::try_from(end).is_err()) {
            return Err(Errno::EFBIG);
        }
        self.change_counted(
            Operation::Write,
            |written| *written as u64,
            |changes| {
                self.drop_rights(changes, inode, kills)?;
                Ok(changes.write(self.content(inode), offset, Payload::Bytes(data))?)
            },
        )
    }

    /// Drops set-user-id, set-group-id and capabilities after a change of content.
    fn drop_rights(&self, changes: &mut dyn Changes, inode: InodeNumber, mode_too: bool) -> FaultResult<()> {
        if self.features.xattrs {
            let given = changes.xattrs().is_some_and(|xattrs| xattrs.xattr(inode, CAPABILITY).is_ok());
            if given && let Some(xattrs) = changes.xattr_changes() {
                xattrs.remove_xattr(inode, CAPABILITY)?;
            }
        }
        if mode_too && self.features.permissions {
            let mode = changes.stat(inode)?.mode;
            if without_rights(mode) != mode {
                let change = AttributeChange { mode: Some(without_rights(mode)), ..AttributeChange::default() };
                changes.set_attributes(inode, &change)?;
            }
        }
        Ok(())
    }

    /// Changes attributes.
    pub(crate) fn set_attributes(&self, request: &Request, inode: INodeNo, asked: AttributeChange) -> Answer<FileAttr> {
        let inode = self.inside(inode);
        if asked.size.is_some_and(|size| i64::try_from(size).is_err()) {
            return Err(Errno::EFBIG);
        }
        let operation = if asked.size.is_some() { Operation::Truncate } else { Operation::SetAttributes };
        self.change(operation, |changes| {
            let before = changes.stat(inode)?;
            let mut change = AttributeChange { mode: asked.mode.map(|mode| mode & MODE_BITS), ..asked };
            // As in fs/fat for volumes without owners: setting the current values is allowed.
            if self.options.owner.is_some() || !self.features.owners {
                let shown = self.options.owner.unwrap_or_default();
                refuse_other(change.uid, shown.uid, before.uid)?;
                refuse_other(change.gid, shown.gid, before.gid)?;
                (change.uid, change.gid) = (None, None);
            }
            let is_owned = change.uid.is_some() || change.gid.is_some();
            if (is_owned || change.size.is_some()) && before.kind == FileKind::Regular {
                let kills = is_owned || request.uid() != 0;
                self.drop_rights(changes, inode, false)?;
                if kills && change.mode.is_none() && without_rights(before.mode) != before.mode {
                    change.mode = Some(without_rights(before.mode));
                }
            }
            let done = self.change_whole(changes, inode, &before, &change);
            match done {
                // As in fs/fat: unsupported permissions are ignored, unsupported owners are an
                // error.
                Err(fault) if fault.is_not_supported() && !is_owned && change.mode.is_some() => {
                    change.mode = None;
                    self.change_whole(changes, inode, &before, &change)?;
                }
                done => done?,
            }
            self.attributes(changes, inode)
        })
    }

    /// Changes attributes; a change of permission bits also updates the access control list.
    fn change_whole(
        &self,
        changes: &mut dyn Changes,
        inode: InodeNumber,
        before: &Attributes,
        change: &AttributeChange,
    ) -> FaultResult<()> {
        if let Some(mode) = change.mode.filter(|mode| self.features.posix_acls && mode & 0o777 != before.mode & 0o777) {
            let list = changes.xattrs().map(|xattrs| xattrs.xattr(inode, acl::ACCESS));
            match list {
                Some(Ok(value)) => {
                    let value = acl::encode(&with_mode(&acl::parse(&value)?, mode));
                    changes.xattr_changes().ok_or(Errno::EOPNOTSUPP)?.set_xattr(inode, acl::ACCESS, &value)?;
                }
                Some(Err(error)) if !is_missing(&error) => return Err(error.into()),
                _ => {}
            }
        }
        changes.set_attributes(inode, change)?;
        Ok(())
    }

    /// Sets an extended attribute.
    pub(crate) fn set_xattr(
        &self,
        request: &Request,
        inode: INodeNo,
        name: &[u8],
        value: &[u8],
        flags: i32,
    ) -> Answer<()> {
        let inode = self.inside(inode);
        if value.len() > XATTR_MAX {
            return Err(Errno::E2BIG);
        }
        self.change(Operation::SetXattr, |changes| {
            if flags & (XATTR_CREATE | XATTR_REPLACE) != 0 {
                let found = changes.xattrs().ok_or(Errno::EOPNOTSUPP)?.xattr(inode, name);
                match found {
                    Ok(_) if flags & XATTR_CREATE != 0 => return Err(Errno::EEXIST.into()),
                    Err(error) if !is_missing(&error) || flags & XATTR_REPLACE != 0 => return Err(error.into()),
                    _ => {}
                }
            }
            if name == acl::ACCESS && self.features.posix_acls {
                return set_access(changes, inode, value, |group| is_in_group(request, group));
            }
            changes.xattr_changes().ok_or(Errno::EOPNOTSUPP)?.set_xattr(inode, name, value)?;
            Ok(())
        })
    }

    /// Removes an extended attribute.
    pub(crate) fn remove_xattr(&self, inode: INodeNo, name: &[u8]) -> Answer<()> {
        let inode = self.inside(inode);
        self.change(Operation::SetXattr, |changes| {
            let removed = changes.xattr_changes().ok_or(Errno::EOPNOTSUPP)?.remove_xattr(inode, name);
            match removed {
                // As in Linux: removing a missing list succeeds (fs/posix_acl.c).
                Err(error) if is_missing(&error) && [acl::ACCESS, acl::DEFAULT].contains(&name) => Ok(()),
                removed => Ok(removed?),
            }
        })
    }

    /// Preallocates space, or punches a hole.
    pub(crate) fn allocate(&self, inode: INodeNo, offset: u64, length: u64, mode: i32) -> Answer<()> {
        let inode = self.inside(inode);
        if offset.checked_add(length).is_none_or(|end| i64::try_from(end).is_err()) {
            return Err(Errno::EFBIG);
        }
        self.change(Operation::Allocate, |changes| {
            let lacks = Errno::EOPNOTSUPP;
            if mode == PUNCH_HOLE | KEEP_SIZE {
                return Ok(changes.holes().ok_or(lacks)?.punch_hole(inode, offset, length)?);
            }
            if mode & !KEEP_SIZE != 0 {
                return Err(lacks.into());
            }
            Ok(changes.allocation().ok_or(lacks)?.allocate(inode, offset, length, mode == KEEP_SIZE)?)
        })
    }

    /// The value of an extended attribute.
    pub(crate) fn xattr(&self, inode: INodeNo, name: &[u8]) -> Answer<Vec<u8>> {
        let inode = self.inside(inode);
        self.read(Operation::GetXattr, |fs| {
            let value = fs.xattrs().ok_or(Errno::EOPNOTSUPP)?.xattr(inode, name)?;
            if value.len() > XATTR_MAX { Err(Errno::E2BIG.into()) } else { Ok(value) }
        })
    }

    /// All names, each terminated by a NUL. Names of `trusted.` are only for root, as on Linux
    /// (xattr(7)).
    pub(crate) fn xattr_names(&self, request: &Request, inode: INodeNo) -> Answer<Vec<u8>> {
        let (inode, is_root) = (self.inside(inode), request.uid() == 0);
        self.read(Operation::GetXattr, |fs| {
            let names = xattr_names(fs, inode)?;
            let mut list = Vec::new();
            for name in names.iter().filter(|name| is_root || !name.starts_with(b"trusted.")) {
                list.extend_from_slice(name);
                list.push(0);
            }
            if list.len() > XATTR_MAX { Err(Errno::E2BIG.into()) } else { Ok(list) }
        })
    }
}

/// The names without a NUL; a name with one would look like two.
fn xattr_names(fs: &dyn FileSystem, inode: InodeNumber) -> FaultResult<Vec<Vec<u8>>> {
    let names = fs.xattrs().ok_or(Errno::EOPNOTSUPP)?.xattr_names(inode)?;
    Ok(names.into_iter().filter(|name| !name.is_empty() && !name.contains(&0)).collect())
}

/// Whether the caller is root or in this group.
fn is_in_group(request: &Request, group: u32) -> bool {
    if request.uid() == 0 || request.gid() == group {
        return true;
    }
    let status = std::fs::read_to_string(format!("/proc/{}/status", request.pid())).unwrap_or_default();
    let groups = status.lines().find_map(|line| line.strip_prefix("Groups:")).unwrap_or_default();
    groups.split_whitespace().any(|number| number.parse() == Ok(group))
}

/// Sets an inode's access control list and the permission bits it implies. A list that says no more
/// than these bits is not stored. As in posix_acl_update_mode() of fs/posix_acl.c, set-group-ID is
/// cleared if the caller is not in the group.
fn set_access(
    changes: &mut dyn Changes,
    inode: InodeNumber,
    value: &[u8],
    is_in_group: impl FnOnce(u32) -> bool,
) -> FaultResult<()> {
    let entries = acl::parse(value)?;
    let before = changes.stat(inode)?;
    let xattrs = changes.xattr_changes().ok_or(Errno::EOPNOTSUPP)?;
    if is_plain(&entries) {
        match xattrs.remove_xattr(inode, acl::ACCESS) {
            Err(error) if !is_missing(&error) => return Err(error.into()),
            _ => {}
        }
    } else {
        xattrs.set_xattr(inode, acl::ACCESS, value)?;
    }
    let mut mode = (before.mode & !0o777) | mode_of(&entries);
    if mode & SET_GID != 0 && !is_in_group(before.gid) {
        mode &= !SET_GID;
    }
    if mode != before.mode {
        changes.set_attributes(inode, &AttributeChange { mode: Some(mode), ..AttributeChange::default() })?;
    }
    Ok(())
}

/// If a fixed owner is shown, only the shown values may be set.
fn refuse_other(asked: Option<u32>, shown: Option<u32>, stored: u32) -> FaultResult<()> {
    match asked {
        Some(asked) if asked != shown.unwrap_or(stored) => Err(Errno::EPERM.into()),
        _ => Ok(()),
    }
}

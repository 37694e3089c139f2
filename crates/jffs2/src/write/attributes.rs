//! Changing attributes, and the size of files.

use nandkit_flash::Flash;
use nandkit_units::Cause;
use nandkit_vfs::{AttributeChange, ErrorKind, FileKind, FsError, Result, Timestamp};

use super::allocate::Urgency;
use crate::Ino;
use crate::encode::Piece;
use crate::inode::Body;
use crate::layout::{ByteOrder, compression};
use crate::layout::{FILE_SIZE_MAX, format as mode_format};
use crate::volume::Jffs2;

/// Converts a time to seconds since 1970, clamped to the format's range.
pub(super) fn to_seconds(time: Timestamp) -> u32 {
    time.0.div_euclid(1_000_000_000).clamp(0, i64::from(u32::MAX)) as u32
}

/// The longest target of a symbolic link in bytes (fs/jffs2/dir.c).
const TARGET_MAX: usize = 254;

/// The data of a new inode's attribute node: a link's target, or a device number. Errors:
/// `NameTooLong` and `InvalidArgument` if the format cannot hold it.
pub(crate) fn attachment(order: ByteOrder, kind: FileKind, target: &[u8], device: u64) -> Result<Vec<u8>> {
    let invalid = |what: &str| Err(FsError::new(ErrorKind::InvalidArgument, what));
    match kind {
        FileKind::Symlink if target.len() > TARGET_MAX => {
            Err(FsError::new(ErrorKind::NameTooLong, format!("a link's target has at most {TARGET_MAX} bytes")))
        }
        FileKind::Symlink if target.is_empty() || target.contains(&0) => {
            invalid("a link's target is not empty and holds no NUL")
        }
        FileKind::Symlink => Ok(target.to_vec()),
        FileKind::BlockDevice | FileKind::CharacterDevice => {
            let bytes = device_bytes(order, device);
            bytes.map_or_else(|| invalid("device numbers have 12 bits (major) and 20 bits (minor)"), Ok)
        }
        _ => Ok(Vec::new()),
    }
}

/// Encodes a device number (fs/jffs2/nodelist.h, `jffs2_encode_dev`): two bytes if major and minor
/// number fit in one each, else four as in the kernel's `new_encode_dev`. `None` if it does not
/// fit.
fn device_bytes(order: ByteOrder, device: u64) -> Option<Vec<u8>> {
    let (major, minor) = ((device >> 32) as u32, device as u32);
    match (major, minor) {
        (0..256, 0..256) => Some(order.bytes16((major << 8 | minor) as u16).to_vec()),
        (0..4096, 0..0x10_0000) => Some(order.bytes32(minor & 0xFF | major << 8 | (minor & !0xFF) << 12).to_vec()),
        _ => None,
    }
}

/// The data of the attribute node of an inode that is no regular file.
pub(crate) fn attached(order: ByteOrder, body: &Body) -> Vec<u8> {
    match body.format() {
        0o120_000 => body.target.clone(),
        0o060_000 | 0o020_000 => device_bytes(order, body.device).unwrap_or_default(),
        _ => Vec::new(),
    }
}

impl<F: Flash> Jffs2<F> {
    /// Extends a regular file by a hole, or truncates it.
    pub(super) fn resize(&mut self, number: Ino, size: u32, urgency: Urgency) -> Result<()> {
        let change = AttributeChange { size: Some(u64::from(size)), ..AttributeChange::default() };
        self.change(number, &change, urgency)
    }

    /// Changes attributes with a single node.
    pub(super) fn change(&mut self, number: Ino, change: &AttributeChange, urgency: Urgency) -> Result<()> {
        let body = self.body_mut(number)?;
        let (old_size, format) = (body.size, body.format());
        let size = match change.size {
            None => old_size,
            Some(_) if format == mode_format::DIRECTORY => {
                return Err(FsError::new(ErrorKind::IsADirectory, "a directory has no size to set"));
            }
            Some(_) if format != mode_format::REGULAR => {
                return Err(FsError::new(ErrorKind::InvalidArgument, "only regular files have a size to set"));
            }
            Some(size) => match u32::try_from(size) {
                Ok(size) if size <= FILE_SIZE_MAX => size,
                _ => return Err(FsError::new(ErrorKind::FileTooBig, "a file has less than 2 GiB")),
            },
        };
        let order = self.medium.order();
        let attached = attached(order, self.body_mut(number)?);
        let datum = self.separate_attributes(number)?;
        // Truncating a file frees space, whatever else is changed. (fs/jffs2/fs.c assumes this only
        // for truncation to zero.)
        let urgency = if size < old_size || change.size == Some(0) { Urgency::Deletion } else { urgency };
        let grant = self.reserve(Self::need_inode(datum.region, attached.len() as u32), urgency)?;
        let now = self.seconds();
        let mut fields = self.fields(number)?;
        let body = self.body_mut(number)?;
        fields.file_size = size;
        fields.mode = change.mode.map_or(body.mode, |mode| body.format() | u32::from(mode) & 0o7777);
        // The format has 16 bits for each; the kernel also drops the rest.
        fields.uid = change.uid.map_or(body.uid, |uid| uid as u16);
        fields.gid = change.gid.map_or(body.gid, |gid| gid as u16);
        fields.accessed = change.accessed.map_or(body.accessed, to_seconds);
        let touched = if change.size.is_some() { now } else { body.modified };
        fields.modified = change.modified.map_or(touched, to_seconds);
        fields.changed = now;
        if size > old_size {
            let hole = Piece::hole(old_size, size - old_size);
            let node = self.write_inode(grant, &fields, &hole, Cause::Metadata, datum.stamp)?;
            self.hold(number, node, old_size, size)?;
        } else {
            let length = attached.len() as u32;
            let piece = Piece { offset: 0, size: length, compression: compression::NONE, bytes: &attached };
            self.write_attributes(grant, &fields, &piece, Cause::Metadata, datum.stamp)?;
        }
        let body = self.body_mut(number)?;
        (body.mode, body.uid, body.gid, body.size) = (fields.mode, fields.uid, fields.gid, size);
        (body.accessed, body.modified, body.changed) = (fields.accessed, fields.modified, fields.changed);
        if size < old_size {
            self.cut(number, size)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_numbers_as_linux_packs_them() {
        let number = |major: u64, minor: u64| device_bytes(ByteOrder::Little, major << 32 | minor);
        assert_eq!(number(4, 64), Some(vec![0x40, 0x04]));
        assert_eq!(number(259, 0x12345), Some(0x1231_0345_u32.to_le_bytes().to_vec()));
        assert_eq!((number(4096, 0), number(0, 1 << 20)), (None, None));
        assert_eq!([-1, 1_999_999_999, i64::MAX].map(|ns| to_seconds(Timestamp(ns))), [0, 1, u32::MAX]);
    }
}

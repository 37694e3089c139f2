//! Extracting the content of regular files: holes are kept, and unreadable parts become holes.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;

use nandkit_vfs::source::{SourceNode, to_read};
use rustix::fs::{Mode, OFlags};

use super::names::Failure;
use super::{List, Work};
use crate::salvage::{self, Damage, UNIT};

/// Bytes per read.
const CHUNK: usize = 1 << 20;

impl Work<'_> {
    /// Creates the regular file of `node`, with its content and attributes.
    pub fn make_file(
        &self,
        parent: BorrowedFd<'_>,
        index: usize,
        node: &SourceNode,
        buffer: &mut Vec<u8>,
    ) -> Result<bool, Failure> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = self.target.make(parent, &node.name, "making the file", |name| {
            rustix::fs::openat(parent, name, flags, Mode::RUSR | Mode::WUSR)
        })?;
        let file = File::from(opened);
        let mut damage = Damage::default();
        let written = self.copy(&file, index, node.size, buffer, &mut damage);
        if let Err(error) = written {
            // A partial file must not remain under the final name.
            self.target.remove(parent, &node.name);
            return Err(Failure::Host("writing the file", error));
        }
        if let Some(what) = damage.note(node.size) {
            self.note(List::Damaged, index, what);
        }
        self.report(|report| {
            report.files += 1;
            report.bytes = report.bytes.saturating_add(node.size);
        });
        self.set_attributes_of_file(file.as_fd(), index, node)?;
        Ok(true)
    }

    /// Copies the content. Errors: those of the host.
    fn copy(&self, file: &File, index: usize, size: u64, buffer: &mut Vec<u8>, damage: &mut Damage) -> io::Result<()> {
        buffer.resize(CHUNK, 0);
        // End of the written part; only zeroes follow it so far.
        let mut written = 0;
        let (mut offset, mut end) = (0, size);
        while offset < end && !damage.is_lost() {
            let data = to_read(self.tree.data_after(index, offset), offset..end);
            if data.is_empty() {
                break;
            }
            offset = data.start;
            let wanted = (data.end - offset).min(CHUNK as u64) as usize;
            let chunk = buffer.get_mut(..wanted).unwrap_or_default();
            end = salvage::read(self.tree, index, (offset, size), chunk, damage);
            write_sparse(file, offset, chunk, &mut written)?;
            offset += wanted as u64;
        }
        if written != end {
            file.set_len(end)?;
        }
        Ok(())
    }
}

/// Writes the non-zero units of a chunk in place, and sets `written` to the end of the last one:
/// 4096 bytes are the smallest hole of host file systems. Errors: those of the host.
pub fn write_sparse(file: &File, offset: u64, chunk: &[u8], written: &mut u64) -> io::Result<()> {
    let zero =
        |at: usize| chunk.get(at..).is_none_or(|rest| nandkit_units::is_zeroed(rest.get(..UNIT).unwrap_or(rest)));
    let mut at = 0;
    while at < chunk.len() {
        if zero(at) {
            at += UNIT;
            continue;
        }
        let mut end = at + UNIT;
        while end < chunk.len() && !zero(end) {
            end += UNIT;
        }
        let end = end.min(chunk.len());
        file.write_all_at(chunk.get(at..end).unwrap_or_default(), offset + at as u64)?;
        *written = offset + end as u64;
        at = end;
    }
    Ok(())
}

//! Writing file content: page by page, with a node for each piece of a page.

use nandkit_codec::compression::{Compressor, Level};
use nandkit_flash::Flash;
use nandkit_units::{Cause, Payload, ReadInto};
use nandkit_vfs::{ErrorKind, FileSystem, FsError, Result};

use super::CompressionMode;
use super::allocate::{Grant, Urgency};
use crate::Ino;
use crate::encode::Piece;
use crate::layout::{FILE_SIZE_MAX, format};
use crate::layout::{INODE_SIZE, MIN_DATA, PAGE_SIZE, compression};
use crate::volume::Jffs2;
use nandkit_cleaning::separation::Stamp;

/// Encoded data of a node: the compression, the number of source bytes, and the stored bytes.
struct Packed {
    method: u8,
    consumed: usize,
    bytes: Vec<u8>,
}

/// Encodes as much of `data` as fits in `room` bytes.
fn pack(compressor: &mut Compressor, mode: CompressionMode, data: &[u8], room: usize) -> Packed {
    let room = room.min(data.len());
    let mut best: Option<Packed> = None;
    let mut output = vec![0; room];
    for method in mode.methods() {
        let done = compressor.compress_prefix(*method, Level::LINUX, data, &mut output);
        let Some((consumed, produced)) = done.filter(|(consumed, produced)| produced < consumed) else { continue };
        let better = best.as_ref().is_none_or(|best| produced * best.consumed < best.bytes.len() * consumed);
        if better {
            best =
                Some(Packed { method: compression::number_of(*method), consumed, bytes: output[..produced].to_vec() });
        }
        if mode != CompressionMode::Size {
            break;
        }
    }
    best.unwrap_or_else(|| Packed { method: compression::NONE, consumed: room, bytes: data[..room].to_vec() })
}

impl<F: Flash> Jffs2<F> {
    /// Writes to a regular file.
    pub(super) fn write_file(&mut self, number: Ino, offset: u64, data: Payload<'_>) -> Result<usize> {
        let kind = match self.body_mut(number)?.format() {
            format::REGULAR => None,
            format::DIRECTORY => Some(ErrorKind::IsADirectory),
            _ => Some(ErrorKind::InvalidArgument),
        };
        if let Some(kind) = kind {
            return Err(FsError::new(kind, format!("inode {number} is no regular file")));
        }
        let end = offset
            .checked_add(data.len() as u64)
            .and_then(|end| u32::try_from(end).ok().filter(|end| *end <= FILE_SIZE_MAX));
        let (Some(end), Ok(start)) = (end, u32::try_from(offset)) else {
            return Err(FsError::new(ErrorKind::FileTooBig, "a file has less than 2 GiB"));
        };
        if data.is_empty() {
            return Ok(0);
        }
        let old_size = self.body_mut(number)?.size;
        if start > old_size {
            self.resize(number, start, Urgency::Normal)?;
        }
        let mut written = 0;
        while written < data.len() {
            let from = start + written as u32;
            let to = (from - from % PAGE_SIZE).saturating_add(PAGE_SIZE).min(end);
            let part = data.part(written, (to - from) as usize);
            let part = part.ok_or_else(|| FsError::new(ErrorKind::InvalidArgument, "data shorter than they say"))?;
            match self.write_in_page(number, from, part) {
                Ok(count) => written += count,
                Err(error) if runs_out(error.kind) && written > 0 => break,
                Err(error) => {
                    if runs_out(error.kind) && start > old_size {
                        // Restore the old state, without the hole.
                        self.resize(number, old_size, Urgency::Deletion)?;
                    }
                    return Err(error);
                }
            }
        }
        Ok(written)
    }

    /// Writes to one page. If the write includes its end, the node gets the whole page; otherwise
    /// everything from a multiple of four on (fs/jffs2/file.c, `jffs2_write_end`).
    fn write_in_page(&mut self, number: Ino, from: u32, part: Payload<'_>) -> Result<usize> {
        let to = from + part.len() as u32;
        let begin = if to.is_multiple_of(PAGE_SIZE) { to - PAGE_SIZE } else { from & !3 };
        let before = (from - begin) as usize;
        let mut bytes = vec![0; before + part.len()];
        let (old, new) = bytes.split_at_mut(before);
        self.content(number, begin, old)?;
        part.copy_to(new);
        let mut done = 0;
        while done < bytes.len() {
            let at = begin + done as u32;
            match self.write_user_piece(number, at, &bytes[done..]) {
                Ok(consumed) => done += consumed,
                Err(error) if runs_out(error.kind) && done > before => break,
                Err(error) => return Err(error),
            }
        }
        Ok(done - before.min(done))
    }

    fn write_user_piece(&mut self, number: Ino, at: u32, bytes: &[u8]) -> Result<usize> {
        let datum = self.separate(number, at)?;
        let grant = self.reserve(Self::need_inode(datum.region, MIN_DATA), Urgency::Normal)?;
        let now = self.seconds();
        let body = self.body_mut(number)?;
        (body.modified, body.changed) = (now, now);
        self.write_piece(number, grant, at, bytes, (Cause::UserData, datum.stamp))
    }

    /// Writes as much of `bytes` to a page of a file as the grant has room for; returns the number
    /// of bytes.
    pub(crate) fn write_piece(
        &mut self,
        number: Ino,
        grant: Grant,
        at: u32,
        bytes: &[u8],
        (cause, stamp): (Cause, Stamp),
    ) -> Result<usize> {
        let room = (grant.room - INODE_SIZE.min(grant.room)) as usize;
        let mut fields = self.fields(number)?;
        let writer = self.writer()?;
        let packed = pack(&mut writer.compressor, writer.options.compression, bytes, room);
        if packed.consumed == 0 {
            return Err(FsError::new(ErrorKind::NoSpace, "no room for data"));
        }
        let end = at + packed.consumed as u32;
        fields.file_size = fields.file_size.max(end);
        let piece =
            Piece { offset: at, size: packed.consumed as u32, compression: packed.method, bytes: &packed.bytes };
        let node = self.write_inode(grant, &fields, &piece, cause, stamp)?;
        self.body_mut(number)?.size = fields.file_size;
        self.hold(number, node, at, end)?;
        Ok(packed.consumed)
    }

    /// The current content of a file; holes are zeroes.
    pub(crate) fn content(&self, number: Ino, from: u32, into: &mut [u8]) -> Result<()> {
        if into.is_empty() {
            return Ok(());
        }
        let count = self.read(number.into(), u64::from(from), ReadInto::Bytes(into))?;
        if let Some(behind) = into.get_mut(count..) {
            behind.fill(0);
        }
        Ok(())
    }

    /// Removes a file's content from `size` on.
    pub(super) fn cut(&mut self, number: Ino, size: u32) -> Result<()> {
        let body = self.body_mut(number)?;
        body.size = size;
        let mut effects = Vec::new();
        body.fragments.clear(size, u32::MAX, &mut effects);
        let last = body.fragments.all().last().copied();
        self.effects(&effects, None);
        // A piece from the beginning of a page to the file's end may be copied as it is.
        if let Some(last) = last.filter(|last| last.end == size && last.start.is_multiple_of(PAGE_SIZE)) {
            let body = self.body_mut(number)?;
            if last.start == last.node_start
                && body.fragments.of_node(last.node, last.node_start, last.node_end).count() == 1
            {
                self.catalogue.set_state(last.node, crate::catalogue::NodeState::Pristine);
            }
        }
        Ok(())
    }
}

/// Whether an error lets the earlier part of a write count: there is no more space, or the inode
/// has no version left.
const fn runs_out(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::NoSpace | ErrorKind::NotSupported)
}

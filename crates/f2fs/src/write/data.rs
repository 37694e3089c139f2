//! File content: written into pages in memory and read through them.

use std::ops::Range;

use nandkit_block::BlockDevice;
use nandkit_units::{Assembly, Payload, Pieces};
use nandkit_vfs::{ErrorKind, FileKind, FsError, Result};

use super::WritableVolume;
use super::back::Why;
use super::tree::is_want_of_room;
use crate::blocks::{Blocks, Nodes};
use crate::ids::{DataAddress, NodeId};
use crate::inode::Inode;
use crate::layout::inode::{InodeShape, advise, flag, inline};
use crate::layout::{InodeHead, word};
use crate::pages::Page;
use crate::read;

/// Pages written as one operation; room is made between two of them.
const PAGES_AT_ONCE: u64 = 512;

impl<D: BlockDevice> WritableVolume<D> {
    /// Writes at `offset`; returns the number of bytes written, which is smaller only if space ran
    /// out after some. The file grows as needed; the caller sets times. The data stays in memory,
    /// but its blocks are accounted. Errors: `NoSpace`, `QuotaExceeded` (nothing written),
    /// `FileTooBig`, `NotSupported` (compressed, encrypted, verity), `InvalidArgument` (not a
    /// regular file), `ReadOnly`, `Corrupt`, `Device`. Cost: the pages touched; a partly written
    /// page is read first.
    pub fn write(&mut self, ino: NodeId, offset: u64, data: Payload<'_>) -> Result<usize> {
        let inode = self.inode_at(ino)?;
        self.write_to(inode, offset, data)
    }

    /// Like [`WritableVolume::write`], for an inode that the caller has just read.
    pub(crate) fn write_to(&mut self, inode: Inode, offset: u64, data: Payload<'_>) -> Result<usize> {
        self.expect_running()?;
        let ino = inode.nid;
        self.expect_writable(&inode)?;
        let end = offset.saturating_add(data.len() as u64);
        self.expect_size(&inode, end)?;
        if data.is_empty() {
            return Ok(0);
        }
        self.drop_unwritten(&inode)?;
        if inode.inline_data().is_some() {
            if end <= inline_room(&inode.shape) {
                self.write_inline(&inode, offset as usize, data)?;
                return Ok(data.len());
            }
            self.convert_inline(ino)?;
        }
        let (size, block) = (inode.head.size.get(), self.geometry().block_size() as u64);
        let replaces_last = offset <= size / block * block && end >= size.div_ceil(block) * block;
        if end > size && !size.is_multiple_of(block) && !replaces_last {
            self.balance()?;
            self.clear_behind(ino, size)?;
        }
        // With no other reference to the inode's block, editing it need not copy it.
        drop(inode);
        let step = PAGES_AT_ONCE << self.geometry().log_block_size();
        let mut done = 0;
        while done < data.len() {
            let at = offset + done as u64;
            let length = ((step - at % step) as usize).min(data.len() - done);
            let Some(part) = data.part(done, length) else { break };
            match self.write_piece(ino, at, part) {
                Ok(taken) => {
                    done += taken;
                    if taken < length {
                        break;
                    }
                }
                Err(error) if done > 0 && is_want_of_room(&error) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn write_piece(&mut self, ino: NodeId, offset: u64, data: Payload<'_>) -> Result<usize> {
        self.balance()?;
        let size = self.geometry().block_size();
        let (first, within) = (offset / size as u64, (offset % size as u64) as usize);
        let pages = (within + data.len()).div_ceil(size) as u64;
        let had = self.reserve(ino, first, pages)?;
        let length = data.len().min(had as usize * size - within);
        if let Err(error) = self.fill_pages(ino, offset, data, length) {
            // The pages stay reserved; roll-forward must not lengthen the file because of them.
            let reserved = (first + had) * size as u64;
            self.edit_head(ino, |head| head.advise |= if head.size.get() < reserved { advise::KEEP_SIZE } else { 0 })?;
            return Err(error);
        }
        let end = offset + length as u64;
        let block = self.node(ino)?;
        let is_longer = InodeHead::in_block(&block).is_some_and(|head| head.size.get() < end);
        drop(block);
        if is_longer {
            self.edit_head(ino, |head| head.size = end.into())?;
        }
        Ok(length)
    }

    /// Writes the first `length` bytes into pages that have an address or a reservation. Errors:
    /// those of reading a page that is partly written.
    fn fill_pages(&mut self, ino: NodeId, offset: u64, data: Payload<'_>, length: usize) -> Result<()> {
        let size = self.geometry().block_size();
        let whole = [data];
        let (mut pieces, mut buffer) = (Pieces::new(&whole), Assembly::new());
        let mut done = 0;
        while done < length {
            let at = offset + done as u64;
            let (page, skip) = (at / size as u64, (at % size as u64) as usize);
            let count = (size - skip).min(length - done);
            let Some(piece) = pieces.next(count, &mut buffer) else { break };
            match piece {
                Payload::Described(described) if count == size => {
                    self.writer.pages().change(ino, page as u32, Page::Described(described), false);
                }
                Payload::Bytes(bytes) if count == size => self.writer.pages().overwrite(ino, page as u32, bytes),
                piece => {
                    let mut bytes = self.page_bytes(ino, page)?;
                    if let Some(place) = bytes.get_mut(skip..skip + count) {
                        piece.copy_to(place);
                    }
                    self.writer.pages().overwrite(ino, page as u32, &bytes);
                }
            }
            done += count;
        }
        Ok(())
    }

    /// The current bytes of a page, from memory or the device; zeroes for a hole.
    pub(crate) fn page_bytes(&mut self, ino: NodeId, page: u64) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.geometry().block_size()];
        let number = u32::try_from(page).unwrap_or(u32::MAX);
        if let Some(found) = self.writer.pages().get(ino, number) {
            found.payload().copy_to(&mut bytes);
            return Ok(bytes);
        }
        let inode = self.inode_at(ino)?;
        if let Some(file) = self.drafted(ino)
            && !self.has_page(&inode, page)?
        {
            return self.page_bytes(file, page);
        }
        let size = bytes.len() as u64;
        read::read(self, &self.clusters, &inode, page * size, &mut bytes)?;
        Ok(bytes)
    }

    /// Reads the current bytes of a file or symlink from `offset` on; bytes past its pages are
    /// zero, and the size is ignored. Errors: `NotSupported` (encrypted), `Corrupt`, `Device`.
    pub fn read_at(&self, inode: &Inode, offset: u64, into: &mut [u8]) -> Result<()> {
        match self.drafted(inode.nid) {
            Some(file) => self.read_draft(inode, file, offset, into),
            None => self.read_plain(inode, offset, into),
        }
    }

    /// Reads the pages of an inode itself, without looking at a draft's file.
    pub(crate) fn read_plain(&self, inode: &Inode, offset: u64, into: &mut [u8]) -> Result<()> {
        if inode.inline_data().is_some() || inode.is_compressed() {
            return read::read(self, &self.clusters, inode, offset, into);
        }
        let size = self.geometry().block_size() as u64;
        let (mut at, mut rest) = (offset, into);
        while !rest.is_empty() {
            let page = at / size;
            let length = rest.len().min((size - at % size) as usize);
            if let Some(found) = self.cached_page(inode.nid, page) {
                let (now, later) = rest.split_at_mut(length);
                let payload = found.payload();
                if let Some(part) = payload.part((at % size) as usize, length) {
                    part.copy_to(now);
                } else {
                    let mut whole = vec![0; size as usize];
                    payload.copy_to(&mut whole);
                    now.copy_from_slice(
                        whole.get((at % size) as usize..).and_then(|b| b.get(..length)).unwrap_or_default(),
                    );
                }
                (at, rest) = (at + length as u64, later);
                continue;
            }
            // One read for all pages that memory does not hold.
            let mut end = at + length as u64;
            while end < at + rest.len() as u64 && self.cached_page(inode.nid, end / size).is_none() {
                end = (end + size).min(at + rest.len() as u64);
            }
            let (now, later) = rest.split_at_mut((end - at) as usize);
            read::read(self, &self.clusters, inode, at, now)?;
            (at, rest) = (end, later);
        }
        Ok(())
    }

    fn cached_page(&self, ino: NodeId, page: u64) -> Option<Page> {
        let page = u32::try_from(page).ok()?;
        self.writer.locked_pages().peek(ino, page).map(|(page, _)| page.clone())
    }

    /// The next range of bytes at or after `offset` that holds data, in memory or on the device,
    /// within the size. Errors: `Corrupt`, `Device`.
    pub fn data_after(&self, inode: &Inode, offset: u64) -> Result<Option<Range<u64>>> {
        if self.drafted(inode.nid).is_some() {
            let end = inode.head.size.get();
            return Ok((offset < end).then_some(offset..end));
        }
        let on_device = read::data_after(self, inode, offset)?;
        if inode.inline_data().is_some() || inode.is_compressed() {
            return Ok(on_device);
        }
        let (size, end) = (self.geometry().block_size() as u64, inode.head.size.get());
        let mut found = on_device;
        let first = u32::try_from(offset / size).unwrap_or(u32::MAX);
        let pages = self.writer.locked_pages();
        for (page, _) in pages.dirty_pages(inode.nid, first) {
            let range = (u64::from(page) * size).max(offset)..((u64::from(page) + 1) * size).min(end);
            if range.is_empty() {
                continue;
            }
            match &mut found {
                None => found = Some(range),
                Some(known) if range.end < known.start => {
                    found = Some(range);
                }
                Some(known) if range.start <= known.end && known.start <= range.end => {
                    *known = known.start.min(range.start)..known.end.max(range.end);
                }
                Some(_) => break,
            }
        }
        Ok(found)
    }

    /// Refuses inodes whose content this program cannot write. Errors: `InvalidArgument`,
    /// `IsADirectory`, `NotSupported`.
    pub(crate) fn expect_writable(&self, inode: &Inode) -> Result<()> {
        let refused = |what: &str| {
            let detail = format!("inode {} is {what}: its content cannot be written", inode.nid.0);
            Err(FsError::new(ErrorKind::NotSupported, detail))
        };
        match inode.kind {
            FileKind::Regular | FileKind::Symlink => {}
            FileKind::Directory => {
                let detail = format!("inode {} is a directory", inode.nid.0);
                return Err(FsError::new(ErrorKind::IsADirectory, detail));
            }
            kind => {
                let detail = format!("inode {} is a {kind}, which has no content", inode.nid.0);
                return Err(FsError::new(ErrorKind::InvalidArgument, detail));
            }
        }
        if inode.is_encrypted() {
            return refused("encrypted");
        }
        if inode.is_compressed() {
            return refused("compressed");
        }
        if inode.head.has_advise(advise::VERITY) {
            return refused("under verity");
        }
        if self.writer.quotas.is_file(inode.nid) {
            return refused("a quota file");
        }
        if inode.head.has_flag(flag::DEVICE_ALIAS) {
            return refused("a whole device");
        }
        Ok(())
    }

    /// Refuses a size beyond the capacity of an inode's tree. Errors: `FileTooBig`.
    pub(crate) fn expect_size(&self, inode: &Inode, size: u64) -> Result<()> {
        let most = self.file_size_max(inode);
        if size <= most {
            return Ok(());
        }
        Err(FsError::new(ErrorKind::FileTooBig, format!("a file of {size} bytes; at most {most}")))
    }

    /// The largest size of a file: the capacity of the nodes below an inode (super.c,
    /// `max_file_blocks`), with 32-bit page numbers.
    pub fn file_size_max(&self, inode: &Inode) -> u64 {
        let shape = inode.tree_shape(self.geometry());
        (shape.pages() - shape.inode_addresses).min(u64::from(u32::MAX)) << self.geometry().log_block_size()
    }

    fn write_inline(&mut self, inode: &Inode, offset: usize, data: Payload<'_>) -> Result<()> {
        self.balance()?;
        let range = inode.shape.inline.clone();
        let end = (offset + data.len()) as u64;
        let size = inode.head.size.get().max(end);
        self.edit_node(inode.nid, |block| {
            if let Some(place) = block.get_mut(range).and_then(|area| area.get_mut(offset..offset + data.len())) {
                data.copy_to(place);
            }
        })?;
        self.edit_head(inode.nid, |head| {
            head.size = size.into();
            head.inline |= inline::DATA_EXISTS;
        })
    }

    /// Moves inline content to a page of its own, written at once: a checkpoint stores the inode
    /// without its content but no file data (inline.c, `f2fs_convert_inline_inode`). Errors:
    /// `NoSpace`, `QuotaExceeded`, `Device`; then the content stays inline.
    pub(crate) fn convert_inline(&mut self, ino: NodeId) -> Result<()> {
        self.balance()?;
        let inode = self.inode_at(ino)?;
        let Some(content) = inode.inline_data().map(<[u8]>::to_vec) else { return Ok(()) };
        let has_content = inode.head.has_inline(inline::DATA_EXISTS) && !content.is_empty();
        if has_content {
            // Account the page's block first: without room, the content stays inline.
            self.admit_blocks(ino, 1, false)?;
            let charge = self.writer.segments.space.charge(0, 1)?;
            self.writer.segments.space.refund(charge);
        }
        let start = inode.shape.inline.start;
        let area = start.saturating_sub(4)..inode.shape.inline.end;
        self.edit_node(ino, |block| block.get_mut(area).unwrap_or_default().fill(0))?;
        self.edit_head(ino, |head| head.inline &= !(inline::DATA | inline::DATA_EXISTS))?;
        if has_content && let Err(error) = self.write_first_page(ino, &content) {
            let undone = self.put_inline(&inode, &content);
            self.or_stop(undone)?;
            return Err(error);
        }
        Ok(())
    }

    /// Writes bytes to the device as the first page of a file that has none.
    fn write_first_page(&mut self, ino: NodeId, content: &[u8]) -> Result<()> {
        self.reserve(ino, 0, 1)?;
        let mut bytes = vec![0; self.geometry().block_size()];
        bytes.iter_mut().zip(content).for_each(|(to, from)| *to = *from);
        self.writer.pages().change(ino, 0, Page::Bytes(bytes.into()), false);
        self.writer.since_checkpoint.copied(ino);
        self.write_back(&[ino], Why::BACKGROUND)
    }

    /// Puts content back into the inode after it could not leave it. `inode`: the inode as it was
    /// before.
    fn put_inline(&mut self, inode: &Inode, content: &[u8]) -> Result<()> {
        self.writer.pages().truncate(inode.nid, 0);
        self.free_pages_from(inode.nid, 0)?;
        let start = inode.shape.inline.start;
        self.edit_node(inode.nid, |block| {
            let area = block.get_mut(start..).unwrap_or_default().iter_mut();
            area.zip(content).for_each(|(to, from)| *to = *from);
        })?;
        let bits = inode.head.inline & (inline::DATA | inline::DATA_EXISTS);
        self.edit_head(inode.nid, |head| head.inline |= bits)
    }

    /// Whether a page of a file was ever written, so that it may hold other bytes than zero.
    pub(crate) fn has_page(&self, inode: &Inode, page: u64) -> Result<bool> {
        if self.writer.locked_pages().peek(inode.nid, u32::try_from(page).unwrap_or(u32::MAX)).is_some() {
            return Ok(true);
        }
        let Some(slot) = self.slot(inode, page)? else { return Ok(false) };
        let block = self.node(slot.nid)?;
        Ok(matches!(DataAddress::of(word(&block, slot.byte).unwrap_or(0)), DataAddress::At(_)))
    }
}

/// Bytes of inline content that an inode of this shape holds.
pub(crate) fn inline_room(shape: &InodeShape) -> u64 {
    shape.inline.len() as u64
}

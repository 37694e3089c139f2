//! File data: whole blocks, each a node.

use nandkit_codec::compression::Compression;
use nandkit_units::Payload;
use nandkit_vfs::{ErrorKind, FsError, InodeNumber, Result};
use zerocopy::IntoBytes;

use super::Writer;
use super::budget::{DATA_NODE_MAX, Purpose};
use super::buffers::DATA_HEAD;
use super::group::{Effect, Group};
use crate::encode::raw;
use crate::layout::{BLOCK_SIZE, Data, INODE_COMPRESSED, Inode, Key, compression, node_type};
use crate::mount::Ubifs;
use crate::pack::{code_of, method_of};

/// Blocks that a key can number.
const BLOCKS_MAX: u64 = 1 << 29;

impl Ubifs {
    /// The compression that a new inode gets.
    pub(super) fn compression_of_new(&self, parent: &Inode) -> u16 {
        let chosen = self.writer.as_deref().and_then(|writer| writer.options.compression);
        match chosen {
            Some(chosen) => code_of(chosen),
            None if parent.flags.get() & INODE_COMPRESSED != 0 => self.superblock.compression.get(),
            None => compression::NONE,
        }
    }

    /// How the data of an inode are compressed.
    fn compression_of(&self, inode: &Inode) -> Compression {
        let chosen = self.writer.as_deref().and_then(|writer| writer.options.compression);
        match chosen {
            Some(chosen) => chosen,
            None if inode.flags.get() & INODE_COMPRESSED != 0 => method_of(inode.compression.get()),
            None => Compression::None,
        }
    }

    /// Adds the node of a block to a group.
    pub(super) fn add_block(&mut self, group: &mut Group, key: Key, inode: &Inode, bytes: &[u8]) -> Result<()> {
        let method = self.compression_of(inode);
        let Writer { packer, options, .. } = self.writer()?;
        let (code, packed) = packer.pack(bytes, method, options.level);
        let body = Data {
            key: raw(key),
            size: (bytes.len() as u32).into(),
            compression: code.into(),
            compressed_size: 0.into(),
        };
        group.add(node_type::DATA, &[body.as_bytes(), packed], Effect::Leaf(key));
        Ok(())
    }

    /// Writes to a regular file.
    pub(super) fn write_file(&mut self, inode: InodeNumber, offset: u64, data: Payload<'_>) -> Result<usize> {
        self.writer()?;
        let (number, node) = self.regular(inode)?;
        self.refuse_encrypted(number, &node)?;
        let length = data.len() as u64;
        let end = offset.checked_add(length).filter(|end| *end <= BLOCKS_MAX * u64::from(BLOCK_SIZE));
        let end = end.ok_or_else(|| FsError::new(ErrorKind::FileTooBig, "a file has at most 2 TiB"))?;
        if length == 0 {
            return Ok(0);
        }
        let mut at = offset;
        while at < end {
            let next = (at / u64::from(BLOCK_SIZE) + 1) * u64::from(BLOCK_SIZE);
            let piece = (next.min(end) - at) as usize;
            let Some(part) = data.part((at - offset) as usize, piece) else { break };
            match self.write_block(number, at, part) {
                Ok(()) => at += piece as u64,
                Err(error) if error.kind == ErrorKind::NoSpace && at > offset => break,
                Err(error) => return Err(error),
            }
        }
        Ok((at - offset) as usize)
    }

    /// Writes bytes within a block.
    fn write_block(&mut self, number: u32, at: u64, part: Payload<'_>) -> Result<()> {
        let size = u64::from(BLOCK_SIZE);
        let (block, column) = (at / size, (at % size) as usize);
        let too_big = || FsError::new(ErrorKind::FileTooBig, "a file has at most 2 TiB");
        let key = Key::data(number, block).ok_or_else(too_big)?;
        if self.pages.get(number, block).is_none() {
            self.budget(DATA_NODE_MAX.into(), u64::from(self.tree.first(key).is_none()), Purpose::Growth)?;
        }
        let mut inode = self.inode(number)?;
        let end = at + part.len() as u64;
        let file_size = inode.0.size.get().max(end);
        let filled = (file_size - block * size).min(size) as usize;
        let mut content = [0; BLOCK_SIZE as usize];
        if column > 0 || part.len() < filled {
            self.block(number, block, &mut content)?;
        }
        if let Some(into) = content.get_mut(column..column + part.len()) {
            part.copy_to(into);
        }
        if self.writer()?.options.dirty_max == 0 {
            let mut group = Group::default();
            self.add_block(&mut group, key, &inode.0, content.get(..filled).unwrap_or_default())?;
            self.put(DATA_HEAD, group)?;
        }
        inode.0.size.set(file_size);
        self.touch(&mut inode.0, true)?;
        self.hold(inode)?;
        match self.writer()?.options.dirty_max {
            0 => Ok(()),
            _ => self.keep_page(number, block, &content),
        }
    }
}

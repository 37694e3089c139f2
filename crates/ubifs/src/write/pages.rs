//! Pages of files that wait in the host's memory, as far as it keeps dirty ones.
//!
//! Linux writes them when they are synced and when there are too many, inode by inode
//! (mm/page-writeback.c; fs/ubifs/file.c, `ubifs_writepage`).

use std::collections::{BTreeMap, VecDeque};

use nandkit_vfs::Result;

use super::buffers::DATA_HEAD;
use super::group::Group;
use crate::layout::{BLOCK_SIZE, Key};
use crate::mount::Ubifs;

/// The content of a block.
pub(crate) type Block = [u8; BLOCK_SIZE as usize];

/// A page that waits.
#[derive(Debug)]
struct Page {
    content: Box<Block>,
    /// Whether the index has no node of the block yet.
    is_new: bool,
}

/// The pages that wait.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    by_block: BTreeMap<(u32, u64), Page>,
    /// Inodes in the order in which they got a page; some may have none left.
    order: VecDeque<u32>,
    new: u64,
}

impl Pages {
    /// How many there are.
    pub fn len(&self) -> u64 {
        self.by_block.len() as u64
    }

    /// How many there are of blocks that the index does not have.
    pub const fn new_blocks(&self) -> u64 {
        self.new
    }

    /// The page of a block.
    pub fn get(&self, inode: u32, block: u64) -> Option<&Block> {
        self.by_block.get(&(inode, block)).map(|page| &*page.content)
    }

    /// The blocks of an inode from this one on, and whether the index lacks them.
    pub fn of(&self, inode: u32, from: u64) -> impl Iterator<Item = (u64, bool)> {
        let pages = self.by_block.range((inode, from)..=(inode, u64::MAX));
        pages.map(|((_, block), page)| (*block, page.is_new))
    }

    /// The first block of an inode that waits.
    fn first(&self, inode: u32) -> Option<u64> {
        self.of(inode, 0).next().map(|(block, _)| block)
    }

    /// Keeps the page of a block.
    fn put(&mut self, inode: u32, block: u64, content: &Block, is_new: bool) {
        if self.first(inode).is_none() {
            self.order.push_back(inode);
        }
        let page = Page { content: Box::new(*content), is_new };
        if self.by_block.insert((inode, block), page).is_none() {
            self.new += u64::from(is_new);
        }
    }

    fn remove(&mut self, inode: u32, block: u64) {
        if let Some(page) = self.by_block.remove(&(inode, block)) {
            self.new -= u64::from(page.is_new);
        }
    }

    /// Forgets the pages of an inode from a block on.
    pub fn cut(&mut self, inode: u32, from: u64) {
        let blocks: Vec<u64> = self.of(inode, from).map(|(block, _)| block).collect();
        blocks.into_iter().for_each(|block| self.remove(inode, block));
    }
}

impl Ubifs {
    /// Keeps a page, and writes those of the inodes that wait longest if there are too many.
    pub(super) fn keep_page(&mut self, inode: u32, block: u64, content: &Block) -> Result<()> {
        let is_new = Key::data(inode, block).is_some_and(|key| self.tree.first(key).is_none());
        self.pages.put(inode, block, content, is_new);
        let most = self.writer()?.options.dirty_max / u64::from(BLOCK_SIZE);
        while self.pages.len() > most {
            // It leaves the order when all its pages are written: after an error a sync finds them.
            let Some(oldest) = self.pages.order.front().copied() else { break };
            self.flush_pages(oldest)?;
        }
        Ok(())
    }

    /// Writes the pages of an inode.
    pub(super) fn flush_pages(&mut self, inode: u32) -> Result<()> {
        while let Some(block) = self.pages.first(inode) {
            let node = self.inode(inode)?.0;
            let filled = node.size.get().saturating_sub(block * u64::from(BLOCK_SIZE)).min(BLOCK_SIZE.into());
            let content = self.pages.get(inode, block).copied();
            if let (Some(key), Some(content)) = (Key::data(inode, block), content)
                && filled > 0
            {
                let mut group = Group::default();
                self.add_block(&mut group, key, &node, content.get(..filled as usize).unwrap_or_default())?;
                self.put(DATA_HEAD, group)?;
            }
            self.pages.remove(inode, block);
        }
        self.pages.order.retain(|other| *other != inode);
        Ok(())
    }

    /// Writes all pages, those of the inodes that wait longest first.
    pub(super) fn flush_all_pages(&mut self) -> Result<()> {
        while let Some(inode) = self.pages.order.front().copied() {
            self.flush_pages(inode)?;
        }
        Ok(())
    }
}

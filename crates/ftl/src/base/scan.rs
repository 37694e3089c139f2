//! Scanning the flash: reading every block's tags, and classifying the block (rules 11 and 13).

use nandkit_flash::{ErrorKind, Flash, PageRead};
use nandkit_units::{BlockIndex, Cause, Content, PageAddress};

use super::Base;
use crate::chain::Chain;
use crate::failure::{Failure, LayerResult};
use crate::tag::{NO_BLOCK, Role, SEQUENCE_END, TAG_BYTES, Tag, TagRead, flag};

/// The use of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The first page is blank.
    Blank,
    /// Programmed, but no page is readable.
    Junk,
    /// Part of the map area.
    Record,
    /// Holds pages of logical blocks.
    Member,
}

/// The result of scanning one block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScannedBlock {
    pub block: u32,
    pub kind: Kind,
    /// Role of the first readable page.
    pub first: Role,
    /// Logical block of the first readable page.
    pub lbn: u32,
    /// Sequence number of the newest readable page.
    pub newest: u64,
    pub newest_role: Role,
    /// Number of pages before the first blank one.
    pub programmed: u32,
    pub tail_readable: bool,
    /// Every readable page lies at its own offset.
    pub in_place: bool,
    /// A page with the flag `LAST` was found.
    pub last_seen: bool,
    pub migrated: bool,
    /// Holds every page, and all have content.
    pub full: bool,
}

/// The record of an unfinished recovery.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    /// `Kill` or `Retire`.
    pub role: Role,
    /// The physical block that the mark names.
    pub block: u32,
    /// Sequence number of the mark's page.
    pub sequence: u64,
    /// The map block that holds the mark.
    pub holder: u32,
}

impl ScannedBlock {
    fn blank(block: u32) -> Self {
        Self {
            block,
            kind: Kind::Blank,
            first: Role::Map,
            lbn: NO_BLOCK,
            newest: 0,
            newest_role: Role::Map,
            programmed: 0,
            tail_readable: false,
            in_place: true,
            last_seen: false,
            migrated: false,
            full: false,
        }
    }

    fn note(&mut self, page: u32, read: TagRead) {
        self.programmed = page + 1;
        let TagRead::Valid(tag) = read else {
            self.tail_readable = false;
            if self.kind == Kind::Blank {
                self.kind = Kind::Junk;
            }
            return;
        };
        if matches!(self.kind, Kind::Blank | Kind::Junk) {
            self.kind = if tag.role.is_record() { Kind::Record } else { Kind::Member };
            (self.first, self.lbn) = (tag.role, tag.block);
            self.migrated = tag.has(flag::MIGRATED);
        }
        self.tail_readable = true;
        self.in_place &= tag.offset == page;
        self.last_seen |= tag.has(flag::LAST);
        if tag.sequence > self.newest {
            (self.newest, self.newest_role) = (tag.sequence, tag.role);
        }
    }

    /// Whether an interrupted merge or migration, or one whose last page was interrupted, may have
    /// left the block: it then holds the device's newest page, and that page is a copy (rule 12).
    pub fn is_unconfirmed(&self, newest: u64) -> bool {
        self.kind == Kind::Member && self.newest == newest && self.newest_role.is_copy() && self.first.is_copy()
    }

    /// Whether all pages lie in place and the block is complete.
    pub fn is_in_order(&self, np: u32) -> bool {
        self.kind == Kind::Member
            && self.in_place
            && self.first != Role::LogCopy
            && (self.last_seen || (self.programmed == np && self.tail_readable))
    }
}

impl<F: Flash> Base<F> {
    /// Reads one page's tag. Returns `Bad` if the page is unreadable.
    pub fn read_tag(&mut self, chain: &mut Chain, at: PageAddress) -> LayerResult<TagRead> {
        let mut oob = [0; TAG_BYTES];
        match self.flash.read(&chain.next(Some(Cause::Recovery)), at, PageRead::oob(&mut oob)) {
            Ok(done) => {
                chain.advance_read(done);
                Ok(self.shape.tag.decode(&oob))
            }
            Err(error) if error.kind == ErrorKind::Uncorrectable => {
                chain.advance_to(error.completed);
                Ok(TagRead::Bad)
            }
            Err(error) => Err(self.failed(chain, error)),
        }
    }

    /// Reads a whole page with its tag, and holds the content so that it is not read again. `None`
    /// if the page is torn.
    pub fn hold_page(&mut self, chain: &mut Chain, at: PageAddress) -> LayerResult<Option<Tag>> {
        let mut content = Content::new();
        let oob = match self.read_page(chain, Cause::Recovery, at, &mut content) {
            Ok(oob) => oob,
            Err(Failure::Unreadable) => return Ok(None),
            Err(failure) => return Err(failure),
        };
        let read = if content.is_empty() { self.read_tag(chain, at)? } else { self.shape.tag.decode(&oob) };
        let TagRead::Valid(tag) = read else { return Ok(None) };
        self.held.push((at, content));
        Ok(Some(tag))
    }

    /// Scans every good block. Changes nothing.
    pub fn scan(&mut self, chain: &mut Chain) -> LayerResult<Vec<ScannedBlock>> {
        let mut all = Vec::new();
        for block in 0..self.shape.blocks {
            if !self.flash.is_bad(BlockIndex(block)) {
                all.push(self.scan_block(chain, block)?);
            }
        }
        Ok(all)
    }

    fn scan_block(&mut self, chain: &mut Chain, block: u32) -> LayerResult<ScannedBlock> {
        let mut found = ScannedBlock::blank(block);
        let np = self.shape.np;
        for page in 0..np {
            let read = self.read_tag(chain, BlockIndex(block).page(page))?;
            if read == TagRead::Blank {
                break;
            }
            found.note(page, read);
            // A complete data block says so on its last page, so the pages between need no reading.
            if page == 0 && found.first == Role::DataCopy && found.kind == Kind::Member {
                let last = self.read_tag(chain, BlockIndex(block).page(np - 1))?;
                if let TagRead::Valid(tag) = last
                    && tag.has(flag::LAST)
                    && tag.has(flag::FULL)
                    && tag.block == found.lbn
                {
                    found.note(np - 1, last);
                    found.full = true;
                    break;
                }
            }
        }
        Ok(found)
    }

    /// Collects the marks of unfinished recoveries: those after the last opening or closing record.
    pub fn pending_marks(&mut self, chain: &mut Chain, found: &[ScannedBlock]) -> LayerResult<Vec<Mark>> {
        let mut marks = Vec::new();
        let mut finished = 0;
        for record in found.iter().filter(|f| f.kind == Kind::Record) {
            for page in 0..record.programmed {
                let TagRead::Valid(tag) = self.read_tag(chain, BlockIndex(record.block).page(page))? else { continue };
                match tag.role {
                    Role::Open | Role::Close => finished = finished.max(tag.sequence),
                    role @ (Role::Kill | Role::Retire) if tag.block != NO_BLOCK => {
                        marks.push(Mark { role, block: tag.block, sequence: tag.sequence, holder: record.block });
                    }
                    _ => {}
                }
            }
        }
        marks.retain(|mark| mark.sequence > finished);
        Ok(marks)
    }
}

/// Erases every good block; a block that cannot be erased is marked bad.
pub(crate) fn erase_all<F: Flash>(flash: &mut F, chain: &mut Chain) -> LayerResult<()> {
    for block in (0..flash.geometry().blocks).map(BlockIndex) {
        if flash.is_bad(block) {
            continue;
        }
        match flash.erase(&chain.next(None), block) {
            Ok(done) => chain.advance(done),
            Err(error) if crate::failure::is_block_failure(error.kind) => {
                chain.advance_to(error.completed);
                chain.advance(flash.mark_bad(&chain.next(None), block)?);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

impl<F: Flash> Base<F> {
    /// Refuses chips that another layer wrote, or that hold more than the capacity.
    pub fn check_owner(&mut self, chain: &mut Chain, found: &[ScannedBlock], layer: u32) -> LayerResult<()> {
        let beyond = found.iter().find(|f| f.kind == Kind::Member && f.lbn >= self.shape.lbns);
        if let Some(block) = beyond {
            return Err(Failure::unfit(format!(
                "block {} of the chip holds logical block {}: expected a capacity of more than {} logical blocks, or another format",
                block.block, block.lbn, self.shape.lbns
            )));
        }
        let newest = found.iter().map(|f| f.newest).max().unwrap_or(0);
        if newest > SEQUENCE_END {
            return Err(Failure::unfit(format!(
                "the newest page has sequence number {newest}: expected at most {SEQUENCE_END}, behind which the numbers end; copy the device to another"
            )));
        }
        self.check_layer(chain, found, layer)
    }

    fn check_layer(&mut self, chain: &mut Chain, found: &[ScannedBlock], layer: u32) -> LayerResult<()> {
        let mut owner: Option<Tag> = None;
        for record in found.iter().filter(|f| f.kind == Kind::Record) {
            for page in 0..record.programmed {
                if let TagRead::Valid(tag) = self.read_tag(chain, BlockIndex(record.block).page(page))?
                    && matches!(tag.role, Role::Open | Role::Close)
                    && owner.is_none_or(|owner| owner.sequence < tag.sequence)
                {
                    owner = Some(tag);
                }
            }
        }
        match owner {
            Some(owner) if owner.block != layer => Err(Failure::unfit(format!(
                "the chip was written by {}, and {} is to use it; expected the layer that wrote it, or another chip",
                layer_name(owner.block),
                layer_name(layer)
            ))),
            _ => Ok(()),
        }
    }
}

/// The name of a translation layer by its number in the tags.
fn layer_name(layer: u32) -> String {
    match layer {
        1 => "the layer block-map".to_string(),
        2 => "the layer fast".to_string(),
        other => format!("an unknown layer, number {other}"),
    }
}

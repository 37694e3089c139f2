//! Step 2: finding the superblocks opened since the base, and reading their tags; also reads of
//! single slots.

use nandkit_codec::page_tag::{TAG_BYTES, TagRead};
use nandkit_flash::{ErrorKind, Flash, PageRead};
use nandkit_units::{Context, ReadInto};

use crate::failure::LayerResult;
use crate::page_map::failing::NO_BLOCK;
use crate::page_map::journal::layout::{Change, Line, Snapshot};
use crate::page_map::{PageMapFtl, role};

/// A tag with a stamp above the base.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tag {
    pub stamp: u64,
    pub slot: u32,
    pub page: u32,
    /// The low eight bits of the tag: the role, and for copies the number of their cleaning.
    pub role: u8,
}

impl Tag {
    pub const fn is_copy(&self) -> bool {
        self.role as u64 & role::MASK == role::COPY
    }
}

/// The result of scanning the superblocks.
#[derive(Debug, Default)]
pub(super) struct Scanned {
    /// The tags, in stamp order.
    pub tags: Vec<Tag>,
    /// For each superblock: the lowest stamp found, which tells when it was opened; `None` if no
    /// page is readable.
    pub lives: Vec<Option<u64>>,
    /// Superblocks opened since the base.
    pub opened: Vec<u32>,
}

/// Void stamps: sorted ranges without overlap. Every tag is looked up here, and there may be
/// millions of ranges.
#[derive(Debug, Default)]
struct Void(Vec<(u64, u64)>);

impl Void {
    fn of(lines: &[Line]) -> Self {
        let ranges = lines.iter().filter_map(|line| match line.change {
            Change::Void { first, last } => Some((first, last)),
            _ => None,
        });
        let mut ranges: Vec<(u64, u64)> = ranges.collect();
        ranges.sort_unstable();
        let mut joined: Vec<(u64, u64)> = Vec::with_capacity(ranges.len());
        for (first, last) in ranges {
            match joined.last_mut() {
                Some((_, end)) if first <= *end => *end = last.max(*end),
                _ => joined.push((first, last)),
            }
        }
        Self(joined)
    }

    /// Whether a stamp is void. Cost: the logarithm of the number of ranges.
    fn has(&self, stamp: u64) -> bool {
        let behind = self.0.partition_point(|(first, _)| *first <= stamp);
        behind.checked_sub(1).and_then(|before| self.0.get(before)).is_some_and(|(_, last)| stamp <= *last)
    }
}

/// Whether a page is merely lost: torn, half erased, or worn out.
pub(super) const fn is_loss(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Uncorrectable | ErrorKind::BadBlock)
}

impl<F: Flash> PageMapFtl<F> {
    /// Scans every superblock, and reads those that were opened since the base or were open then.
    pub(super) fn scan(&mut self, context: &Context, snapshot: &Snapshot, lines: &[Line]) -> LayerResult<Scanned> {
        let mut scanned = Scanned::default();
        let void = Void::of(lines);
        for superblock in 0..self.superblocks.count() {
            let life = self.life(context, superblock)?;
            scanned.lives.push(life);
            let fill = snapshot.fills.iter().find(|[open, _]| *open == superblock).map(|[_, fill]| *fill);
            let from = match (life, fill) {
                (None, _) => continue,
                (Some(life), _) if life > snapshot.base => {
                    scanned.opened.push(superblock);
                    0
                }
                (Some(_), Some(fill)) => fill,
                (Some(_), None) => continue,
            };
            self.recovery.superblocks_read += 1;
            for page in from..self.superblocks.pages() {
                self.tags_of(context, superblock, page, |tag| {
                    if tag.stamp > snapshot.base && !void.has(tag.stamp) {
                        scanned.tags.push(tag);
                    }
                })?;
            }
        }
        scanned.tags.sort_by_key(|tag| tag.stamp);
        Ok(scanned)
    }

    /// The stamp of the first readable page of a superblock. All its blocks belong to one life,
    /// because it is programmed only when all are erased.
    fn life(&mut self, context: &Context, superblock: u32) -> LayerResult<Option<u64>> {
        for page in 0..self.superblocks.stripe() {
            let mut stamp = None;
            self.tags_of(context, superblock, page, |tag| stamp = stamp.or(Some(tag.stamp)))?;
            if stamp.is_some() {
                return Ok(stamp);
            }
        }
        Ok(None)
    }

    /// Visits the valid tags of a page, including those of empty slots.
    fn tags_of(
        &mut self,
        context: &Context,
        superblock: u32,
        page: u32,
        mut visit: impl FnMut(Tag),
    ) -> LayerResult<()> {
        let at = self.superblocks.at(superblock, page);
        if at.block == NO_BLOCK || self.flash.is_bad(at.block) {
            return Ok(());
        }
        let mut oob = vec![0; TAG_BYTES << self.superblocks.slot_shift()];
        self.recovery.pages_read += 1;
        match self.flash.read(context, at, PageRead::oob(&mut oob)) {
            Ok(done) => self.recovery.completed = self.recovery.completed.max(done.completed),
            Err(error) if is_loss(error.kind) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        let first = self.superblocks.slot(superblock, page);
        for (slot, image) in (first..).zip(oob.as_chunks::<TAG_BYTES>().0) {
            if let TagRead::Valid { payload, sequence: stamp } = self.tag.decode(image) {
                let page = u32::try_from(payload >> 8).unwrap_or(u32::MAX);
                visit(Tag { stamp, slot, page, role: payload as u8 });
            }
        }
        Ok(())
    }

    /// Reads the bytes of a slot; returns whether they are readable and tagged as this page.
    pub(super) fn read_slot(&mut self, context: &Context, slot: u32, page: u32, bytes: &mut [u8]) -> LayerResult<bool> {
        let (at, part) = self.superblocks.address(slot);
        if at.block == NO_BLOCK || self.flash.is_bad(at.block) {
            return Ok(false);
        }
        let mut oob = vec![0; TAG_BYTES << self.superblocks.slot_shift()];
        let column = part * self.block.sector_size;
        self.recovery.pages_read += 1;
        match self.flash.read(context, at, PageRead { column, data: ReadInto::Bytes(bytes), oob: &mut oob }) {
            Ok(done) => self.recovery.completed = self.recovery.completed.max(done.completed),
            Err(error) if is_loss(error.kind) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        let image = oob.as_chunks::<TAG_BYTES>().0.get(part as usize).copied();
        let tag = image.map(|image| self.tag.decode(&image));
        Ok(matches!(tag, Some(TagRead::Valid { payload, .. }) if payload >> 8 == u64::from(page)))
    }
}

#[cfg(test)]
mod tests {
    use nandkit_units::random::Random;

    use super::*;

    #[test]
    fn void_stamps_are_those_of_any_line_that_says_so() {
        let mut random = Random::new(1, "void");
        for count in 0..60 {
            let mut lines = Vec::new();
            for stamp in 0..count {
                let first = random.below(200);
                let last = first + random.below(9);
                let change = if random.below(3) == 0 { Change::Lost { page: 1 } } else { Change::Void { first, last } };
                lines.push(Line { stamp, change });
            }
            let void = Void::of(&lines);
            let says = |line: &Line, stamp: u64| matches!(line.change, Change::Void { first, last } if (first..=last).contains(&stamp));
            for stamp in 0..220 {
                assert_eq!(void.has(stamp), lines.iter().any(|line| says(line, stamp)), "{stamp} of {lines:?}");
            }
        }
    }

    /// The lines of trims, remaps and losses, of which a journal may hold very many, must not be
    /// searched for each tag.
    #[test]
    fn only_lines_that_void_stamps_are_searched() {
        let other = (0..100_000).map(|stamp| Line { stamp, change: Change::Trim { first: 0, count: 1 } });
        let void = (0..3).map(|start| Line { stamp: 100_000 + start, change: Change::Void { first: 0, last: 0 } });
        let lines: Vec<Line> = other.chain(void).collect();
        assert_eq!(Void::of(&lines).0, [(0, 0)]);
    }
}

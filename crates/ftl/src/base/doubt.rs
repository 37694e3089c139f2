//! What a power cut leaves in doubt, and the recovery steps that both block-mapped layers share
//! (rules 11, 12, 15, 17 and 18).

use nandkit_flash::Flash;
use nandkit_units::Cause;

use super::{Base, Kind, Mark, ScannedBlock};
use crate::chain::Chain;
use crate::failure::LayerResult;
use crate::tag::{NO_BLOCK, Role};

/// What the interrupted operation may have left, and what unfinished recoveries recorded.
#[derive(Clone, Debug)]
pub(crate) struct Doubt {
    /// The device was closed properly or is empty, so nothing is in doubt.
    pub clean: bool,
    /// The sequence number of the newest page on the device.
    pub newest: u64,
    /// Blocks without a readable page: they prove nothing and are erased first.
    junk: Vec<u32>,
    /// Blocks that an unfinished recovery condemned with a mark that is no longer in doubt: erased
    /// next.
    condemned: Vec<u32>,
    /// The block that this cut left unfinished: erased after its mark is written.
    dead: Option<u32>,
    /// The block that was written last before the cut, although it looks complete.
    pub suspect: Option<u32>,
    /// The mark that this recovery writes.
    mark: (Role, u32),
    /// The map block with the newest page: kept until the mark is written.
    evidence: Option<u32>,
    /// The map block with an unfinished recovery's mark for the suspect: kept until recovery ends.
    cover: Option<u32>,
}

impl Doubt {
    pub fn new(found: &[ScannedBlock], marks: &[Mark]) -> Self {
        let last = found.iter().filter(|f| f.newest > 0).max_by_key(|f| f.newest);
        let clean = last.map_or(found.iter().all(|f| f.kind == Kind::Blank), |f| f.newest_role == Role::Close);
        let mut doubt = Self {
            clean,
            newest: last.map_or(0, |f| f.newest),
            junk: Vec::new(),
            condemned: Vec::new(),
            dead: None,
            suspect: None,
            mark: (Role::Retire, NO_BLOCK),
            evidence: last.filter(|f| f.kind == Kind::Record).map(|f| f.block),
            cover: None,
        };
        if !clean {
            doubt.junk = found.iter().filter(|f| f.kind == Kind::Junk).map(|f| f.block).collect();
            doubt.judge_marks(found, marks);
            doubt.judge_last(last);
        }
        doubt
    }

    fn judge_marks(&mut self, found: &[ScannedBlock], marks: &[Mark]) {
        for mark in marks {
            let Some(named) = found.iter().find(|f| f.block == mark.block && f.kind == Kind::Member) else { continue };
            if named.newest > mark.sequence {
                continue;
            }
            // The newest page may be torn: a mark in it is written again.
            let firm = mark.sequence < self.newest;
            match (mark.role, firm) {
                (Role::Kill, true) => self.condemned.push(mark.block),
                (Role::Kill, false) => (self.dead, self.mark) = (Some(mark.block), (Role::Kill, mark.block)),
                (_, true) => (self.suspect, self.cover) = (Some(mark.block), Some(mark.holder)),
                (_, false) => (self.suspect, self.mark) = (Some(mark.block), (Role::Retire, mark.block)),
            }
        }
        self.condemned.sort_unstable();
        self.condemned.dedup();
        if self.dead.is_some_and(|dead| self.condemned.contains(&dead)) {
            (self.dead, self.mark) = (None, (Role::Retire, NO_BLOCK));
        }
    }

    fn judge_last(&mut self, last: Option<&ScannedBlock>) {
        match last {
            Some(last) if last.is_unconfirmed(self.newest) => {
                (self.dead, self.mark) = (Some(last.block), (Role::Kill, last.block));
            }
            Some(last) if last.kind == Kind::Member => {
                (self.suspect, self.mark) = (Some(last.block), (Role::Retire, last.block));
            }
            _ => {}
        }
    }

    /// Whether the block's content must be ignored.
    pub fn is_dead(&self, block: u32) -> bool {
        self.dead == Some(block) || self.condemned.contains(&block)
    }

    /// Blocks without live content that are not free yet.
    fn kept(&self) -> impl Iterator<Item = u32> + '_ {
        let single = [self.dead, self.evidence, self.cover];
        self.junk.iter().chain(&self.condemned).copied().chain(single.into_iter().flatten())
    }
}

impl<F: Flash> Base<F> {
    /// Frees every block that is neither live nor in doubt nor needed as evidence.
    pub fn fill_pool(&mut self, found: &[ScannedBlock], doubt: &Doubt, live: impl Iterator<Item = u32>) {
        let mut free = vec![true; self.shape.blocks as usize];
        for block in live.chain(doubt.kept()) {
            if let Some(entry) = free.get_mut(block as usize) {
                *entry = false;
            }
        }
        for f in found.iter().filter(|f| free.get(f.block as usize) == Some(&true)) {
            self.put_into_pool(f.block);
        }
    }

    /// Rule 15: writes the decision to a fresh block before erasing anything that might count.
    /// Returns the number of blocks erased.
    pub fn begin_repair(&mut self, chain: &mut Chain, doubt: &Doubt) -> LayerResult<u64> {
        if doubt.clean {
            doubt.evidence.iter().for_each(|block| self.release(*block));
            return Ok(0);
        }
        self.erase_for_good(chain, &doubt.junk)?;
        self.erase_for_good(chain, &doubt.condemned)?;
        self.append_record(chain, Cause::Recovery, doubt.mark.0, doubt.mark.1)?;
        let evidence = doubt.evidence.filter(|block| doubt.cover != Some(*block));
        evidence.iter().for_each(|block| self.put_into_pool(*block));
        self.erase_for_good(chain, doubt.dead.as_slice())?;
        Ok((doubt.junk.len() + doubt.condemned.len() + doubt.dead.iter().len()) as u64)
    }

    /// Rule 17: writes the record that ends recovery.
    pub fn finish_repair(&mut self, chain: &mut Chain, doubt: &Doubt, layer: u32) -> LayerResult<()> {
        self.append_record(chain, Cause::Recovery, Role::Open, layer)?;
        doubt.cover.iter().for_each(|block| self.put_into_pool(*block));
        Ok(())
    }

    fn erase_for_good(&mut self, chain: &mut Chain, blocks: &[u32]) -> LayerResult<()> {
        for &block in blocks {
            if self.erase(chain, Cause::Recovery, block)? {
                self.put_into_pool(block);
            }
        }
        Ok(())
    }
}

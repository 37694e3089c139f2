//! The log while a volume is written: which LEBs are buds, and where the log goes on.
//!
//! Source of the rules: Linux `fs/ubifs/log.c`.

use std::collections::BTreeMap;

use nandkit_units::Cause;
use nandkit_vfs::{ErrorKind, FsError, Result};

use super::Writer;
use super::buffers::{Buffers, HEADS};
use crate::encode::{bytes_of, node, pad};
use crate::layout::{CommitStart, HEADER_SIZE, LOG_LEB, Reference, node_type};

/// Bytes of a reference's node with its unused end (Linux `struct ubifs_ref_node`).
const REFERENCE_SIZE: usize = 64;

/// The log.
#[derive(Clone, Debug)]
pub(crate) struct LogState {
    /// Number of LEBs.
    pub lebs: u32,
    /// Where the next node goes.
    pub head: (u32, u32),
    /// Where the log begins.
    pub tail: u32,
    /// Where each bud begins in its LEB.
    pub buds: BTreeMap<u32, u32>,
    /// Most bytes of buds.
    pub bud_bytes_max: u64,
    pub leb_size: u32,
    pub unit: u32,
}

impl LogState {
    fn next(&self, leb: u32) -> u32 {
        LOG_LEB + (leb - LOG_LEB + 1) % self.lebs.max(1)
    }

    const fn reference_bytes(&self) -> u32 {
        (REFERENCE_SIZE as u32).next_multiple_of(self.unit)
    }

    /// Bytes of all buds.
    pub fn bud_bytes(&self) -> u64 {
        self.buds.values().map(|start| u64::from(self.leb_size.saturating_sub(*start))).sum()
    }

    /// References for which there is room, if one LEB remains for the start of a commit.
    fn references_left(&self) -> u32 {
        let (leb, offset) = self.head;
        let here = self.leb_size.saturating_sub(offset) / self.reference_bytes();
        let behind = (self.tail + self.lebs - leb - 1) % self.lebs.max(1);
        here + behind.saturating_sub(1) * (self.leb_size / self.reference_bytes())
    }

    /// Whether a new bud is to wait for a commit. `spare` references are kept for what a commit
    /// itself writes before it starts.
    pub fn is_full(&self, spare: u32) -> bool {
        self.references_left() <= spare || self.bud_bytes() + u64::from(self.leb_size) > self.bud_bytes_max
    }

    /// Whether a commit is to come soon (Linux `bg_bud_bytes`).
    pub fn is_filling(&self) -> bool {
        self.bud_bytes() >= self.bud_bytes_max / 16 * 13
    }

    /// Whether no reference at all fits.
    pub fn has_no_room(&self) -> bool {
        self.references_left() == 0
    }

    /// The LEBs from the tail to the one before `end`.
    pub fn lebs_before(&self, end: u32) -> Vec<u32> {
        let mut found = Vec::new();
        let mut leb = self.tail;
        while leb != end && found.len() < self.lebs as usize {
            found.push(leb);
            leb = self.next(leb);
        }
        found
    }
}

fn reference(leb: u32, offset: u32, head: usize, sequence: u64, into: &mut Vec<u8>) {
    let body = Reference { leb: leb.into(), offset: offset.into(), head: (head as u32).into() };
    let rest = [0; REFERENCE_SIZE - HEADER_SIZE - size_of::<Reference>()];
    node(node_type::REFERENCE, sequence, &[bytes_of(&body), &rest], into);
}

impl Writer {
    /// Makes a LEB the bud of a head, from an offset on. The LEB is mapped first, so that the log
    /// never names one whose old content a power cut could bring back.
    pub fn add_bud(&mut self, lebs: &mut Buffers, head: usize, leb: u32, offset: u32) -> Result<()> {
        if self.log.has_no_room() {
            return Err(FsError::new(ErrorKind::NoSpace, "the log is full"));
        }
        self.wants_commit |= self.log.is_filling();
        let writer = lebs.writer_for(Cause::Checkpoint)?;
        if offset == 0 {
            writer.map(leb)?;
        }
        let (mut at, mut start) = self.log.head;
        if start + self.log.reference_bytes() > self.log.leb_size {
            at = self.log.next(at);
            start = 0;
        }
        if start == 0 {
            // A power cut may have kept what was there.
            writer.unmap(at)?;
        }
        let mut bytes = Vec::new();
        reference(leb, offset, head, self.next_sequence(), &mut bytes);
        let end = bytes.len().next_multiple_of(self.unit as usize);
        pad(&mut bytes, end);
        writer.write(at, start, &bytes)?;
        self.log.head = (at, start + bytes.len() as u32);
        self.log.buds.insert(leb, offset);
        self.space.take(leb, true);
        lebs.seek(head, Some(leb), offset);
        Ok(())
    }

    /// Writes the start of a commit to the next LEB of the log, with a reference to each head's
    /// LEB; returns the new tail. The heads are flushed.
    pub fn start_commit(&mut self, lebs: &mut Buffers) -> Result<u32> {
        let at = if self.log.head.1 == 0 { self.log.head.0 } else { self.log.next(self.log.head.0) };
        if at == self.log.tail && self.log.head != (at, 0) {
            return Err(FsError::new(ErrorKind::NoSpace, "the log has no LEB for a commit"));
        }
        let mut bytes = Vec::new();
        let start = CommitStart { commit: self.commit.saturating_add(1).into() };
        node(node_type::COMMIT_START, self.next_sequence(), &[bytes_of(&start)], &mut bytes);
        self.log.buds.clear();
        for head in 0..HEADS {
            let (leb, end) = (lebs.head(head).leb, lebs.head(head).end());
            match leb {
                Some(leb) if end < self.log.leb_size => {
                    reference(leb, end, head, self.next_sequence(), &mut bytes);
                    self.log.buds.insert(leb, end);
                }
                _ => lebs.seek(head, None, 0),
            }
        }
        let end = bytes.len().next_multiple_of(self.unit as usize);
        pad(&mut bytes, end);
        let writer = lebs.writer_for(Cause::Checkpoint)?;
        writer.unmap(at)?;
        writer.write(at, 0, &bytes)?;
        self.log.head = (at, bytes.len() as u32);
        Ok(at)
    }
}

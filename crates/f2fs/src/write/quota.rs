//! Quota files of a writable volume: usage is kept in memory as inodes change and goes into the
//! files with each checkpoint, so that every checkpoint has files that agree with its tree
//! (f2fs-writing.md, "Quotas"; checkpoint.c, `block_operations`; super.c, `f2fs_quota_sync`).
//!
//! An inconsistent file does not stop the volume: usage is no longer tracked, and the checkpoint is
//! marked (QUOTA_NEED_FSCK), as in Linux. The next mount recounts.

use std::collections::BTreeSet;

use nandkit_block::BlockDevice;
use nandkit_units::Cause;
use nandkit_vfs::{ErrorKind, FileKind, FsError, Result};

use super::WritableVolume;
use super::back::Why;
use crate::blocks::{Blocks, Nodes};
use crate::encode::put;
use crate::findings::{Defect, FindingKind};
use crate::ids::{Block, NodeId};
use crate::inode::Inode;
use crate::layout::checkpoint::flag;
use crate::layout::inode::inline;
use crate::pages::Page;
use crate::quota::layout::{BLOCK, Record};
use crate::quota::tree::{QuotaBlock, QuotaBlocks, QuotaTree};
use crate::quota::usage::{Change, Known, LimitNow, Verdict};
use crate::quota::{Owners, QuotaKind, Share, Usage, Usages, file};

/// The blocks of a quota file, stored in the pages of its inode.
pub(super) struct QuotaFile<'a, D> {
    volume: &'a mut WritableVolume<D>,
    ino: NodeId,
}

impl<D: BlockDevice> QuotaFile<'_, D> {
    /// The page that holds a block, and the block's offset there.
    fn place(&self, number: u32) -> (u32, usize) {
        let per_page = (self.volume.geometry().block_size() / BLOCK) as u32;
        (number / per_page, (number % per_page) as usize * BLOCK)
    }
}

impl<D: BlockDevice> QuotaBlocks for QuotaFile<'_, D> {
    fn size(&mut self) -> Result<u64> {
        Ok(self.volume.inode_at(self.ino)?.head.size.get())
    }

    fn read_block(&mut self, number: u32) -> Result<QuotaBlock> {
        let (page, start) = self.place(number);
        let bytes = self.volume.quota_page(self.ino, page)?;
        let mut block = [0; BLOCK];
        block.iter_mut().zip(bytes.get(start..).unwrap_or_default()).for_each(|(to, from)| *to = *from);
        Ok(block)
    }

    fn write_block(&mut self, number: u32, block: &QuotaBlock) -> Result<()> {
        let (page, start) = self.place(number);
        let mut bytes = self.volume.quota_page(self.ino, page)?.to_vec();
        put(&mut bytes, start, block);
        self.volume.reserve(self.ino, page.into(), 1)?;
        self.volume.writer.pages().change(self.ino, page, Page::Bytes(bytes.into()), false);
        let end = (u64::from(number) + 1) * BLOCK as u64;
        if self.volume.inode_at(self.ino)?.head.size.get() < end {
            self.volume.edit_head(self.ino, |head| head.size = end.into())?;
        }
        Ok(())
    }

    fn make_room(&mut self, first: u32, count: u32) -> Result<()> {
        let (start, last) = (self.place(first).0, self.place(first.saturating_add(count.max(1) - 1)).0);
        let wanted = u64::from(last - start) + 1;
        let had = self.volume.reserve(self.ino, start.into(), wanted)?;
        if had < wanted {
            let detail = format!("a quota file needs {wanted} pages more and got {had}");
            return Err(FsError::new(ErrorKind::NoSpace, detail));
        }
        Ok(())
    }
}

impl<D: BlockDevice> WritableVolume<D> {
    /// A page of a quota file; it stays in memory.
    fn quota_page(&mut self, ino: NodeId, page: u32) -> Result<Block> {
        if let Some(Page::Bytes(bytes)) = self.writer.pages().get(ino, page) {
            return Ok(bytes.clone());
        }
        let bytes = Block::from(self.page_bytes(ino, page.into())?);
        self.writer.pages().keep(ino, page, Page::Bytes(bytes.clone()));
        Ok(bytes)
    }

    /// Reads the parts of the quota files that a mount needs. Files that are marked as
    /// inconsistent, or are not quota files, are not trusted.
    pub(super) fn open_quotas(&mut self) {
        if !self.writer.quotas.exist() {
            return;
        }
        if self.state.head.has(flag::QUOTA_NEEDS_FSCK) {
            self.writer.quotas.distrust("the checkpoint marks them as untrusted".into());
            return;
        }
        for kind in QuotaKind::ALL {
            if let Err(error) = self.open_quota(kind) {
                self.distrust_quotas(&error);
                return;
            }
        }
    }

    fn open_quota(&mut self, kind: QuotaKind) -> Result<()> {
        let Some(ino) = self.writer.quotas.ledger(kind).map(|ledger| ledger.ino) else { return Ok(()) };
        expect_quota_file(&self.inode_at(ino)?)?;
        let header = self.with_quota_tree(kind, |tree| Ok(*tree.header()))?;
        if let Some(ledger) = self.writer.quotas.ledger_mut(kind) {
            ledger.grace = (header.bytes_grace.get().into(), header.inodes_grace.get().into());
        }
        Ok(())
    }

    /// Recounts quotas that the checkpoint marks as untrusted. If that fails, usage stays
    /// untracked, and a note says why.
    pub(super) fn renew_quotas(&mut self) {
        let Some(why) = self.writer.quotas.untrusted().map(str::to_owned) else { return };
        let note = match self.recount_quotas() {
            Ok(()) => format!("the quotas were counted anew: {why}"),
            Err(error) => format!("the quotas are not tracked: {error}"),
        };
        self.notes.push(Defect::new(FindingKind::Note, note));
    }

    /// Why usage is not tracked although the volume has quota files; `None` if it is tracked or
    /// there are none.
    pub fn untrusted_quotas(&self) -> Option<&str> {
        self.writer.quotas.untrusted()
    }

    /// Stops tracking usage.
    fn distrust_quotas(&mut self, error: &FsError) {
        if self.writer.quotas.distrust(error.to_string()) {
            let detail = format!("a quota file is damaged, and usage is no longer tracked: {error}");
            self.notes.push(Defect::new(FindingKind::Note, detail));
        }
    }

    /// Passes on the result of work on quota files; any failure except lack of space stops the
    /// tracking of usage.
    fn or_distrust<T>(&mut self, result: Result<T>) -> Result<Option<T>> {
        match result {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.kind == ErrorKind::NoSpace => Err(error),
            Err(error) => {
                self.distrust_quotas(&error);
                Ok(None)
            }
        }
    }

    fn with_quota_tree<R>(
        &mut self,
        kind: QuotaKind,
        work: impl FnOnce(&mut QuotaTree<'_, QuotaFile<'_, D>>) -> Result<R>,
    ) -> Result<R> {
        let Some(ino) = self.writer.quotas.ledger(kind).map(|ledger| ledger.ino) else {
            return Err(FsError::new(ErrorKind::NotSupported, format!("no {} quotas are kept", kind.name())));
        };
        let mut file = QuotaFile { volume: self, ino };
        work(&mut QuotaTree::open(&mut file, kind)?)
    }

    /// The record of an id, from memory or its file.
    fn known_record(&mut self, kind: QuotaKind, id: u32) -> Result<Option<Known>> {
        let Some(ledger) = self.writer.quotas.ledger(kind) else { return Ok(None) };
        if let Some(known) = ledger.known.get(&id) {
            return Ok(Some(*known));
        }
        let found = self.with_quota_tree(kind, |tree| tree.find(id))?;
        let Some((at, record)) = found else { return Ok(None) };
        Ok(Some(self.remember(kind, at, record)))
    }

    fn remember(&mut self, kind: QuotaKind, at: crate::quota::tree::RecordPlace, record: Record) -> Known {
        let known = Known { at, record };
        if let Some(ledger) = self.writer.quotas.ledger_mut(kind) {
            ledger.known.insert(record.id, known);
        }
        known
    }

    /// The current usage and limits of an id; `None` if it has neither, or usage is not tracked.
    /// Errors: `Device`, `Corrupt`.
    pub fn quota(&mut self, kind: QuotaKind, id: u32) -> Result<Option<Record>> {
        let Some(ledger) = self.writer.quotas.ledger(kind) else { return Ok(None) };
        let is_pending = ledger.pending.contains_key(&id);
        let record = match self.known_record(kind, id)? {
            Some(known) => known.record,
            None if is_pending => Record { id, ..Record::default() },
            None => return Ok(None),
        };
        Ok(self.writer.quotas.ledger(kind).map(|ledger| Record { usage: ledger.usage(&record), ..record }))
    }

    /// The usage and limits of all ids that have either. Errors: `Device`, `Corrupt`. Cost: reads
    /// the whole file.
    pub fn quotas(&mut self, kind: QuotaKind) -> Result<Vec<Record>> {
        let Some(ledger) = self.writer.quotas.ledger(kind) else { return Ok(Vec::new()) };
        let mut ids: BTreeSet<u32> = ledger.pending.keys().copied().collect();
        ids.extend(self.with_quota_tree(kind, |tree| tree.records())?.into_keys());
        let mut all = Vec::with_capacity(ids.len());
        for id in ids {
            all.extend(self.quota(kind, id)?.filter(|record| !record.is_needless()));
        }
        Ok(all)
    }

    /// Sets the limits of an id, durable with the next checkpoint; its usage is unchanged. Errors:
    /// `NotSupported` (no quotas of this kind), `NoSpace` (no room in the file), `Device`,
    /// `Corrupt`.
    pub fn set_limits(&mut self, kind: QuotaKind, limits: &Record) -> Result<()> {
        self.balance()?;
        let id = limits.id;
        if self.writer.quotas.ledger(kind).is_none() {
            return Err(FsError::new(ErrorKind::NotSupported, format!("no {} quotas are kept", kind.name())));
        }
        self.enter_owner(kind, id)?;
        if let Some(ledger) = self.writer.quotas.ledger_mut(kind)
            && let Some(known) = ledger.known.get_mut(&id)
        {
            known.record = Record { usage: known.record.usage, ..*limits };
            ledger.pending.entry(id).or_default();
        }
        Ok(())
    }

    /// Makes sure that an id has a record, so that the checkpoint that writes its usage needs no
    /// room. Errors: `NoSpace`; then nothing has changed.
    fn enter_owner(&mut self, kind: QuotaKind, id: u32) -> Result<()> {
        let known = self.known_record(kind, id);
        if self.or_distrust(known)?.flatten().is_some() || self.writer.quotas.ledger(kind).is_none() {
            return Ok(());
        }
        let record = Record { id, ..Record::default() };
        let inserted = self.with_quota_tree(kind, |tree| tree.insert(&record));
        if let Some(at) = self.or_distrust(inserted)? {
            self.remember(kind, at, record);
            if let Some(ledger) = self.writer.quotas.ledger_mut(kind) {
                ledger.pending.entry(id).or_default();
            }
        }
        Ok(())
    }

    /// Checks new owners of an inode, or the owners of a new inode (`None`), against their quotas.
    /// Errors: `QuotaExceeded`, `NoSpace` (no room in a quota file); then nothing has changed.
    pub(crate) fn admit_owners(&mut self, ino: Option<NodeId>, owners: Owners) -> Result<()> {
        if !self.writer.quotas.are_kept() {
            return Ok(());
        }
        let (mut wanted, mut more) = (owners.map(Some), Usage { inodes: 1, bytes: 0 });
        if let Some(ino) = ino
            && let Some(share) = Share::of_block(&self.node(ino)?, self.geometry().features)
        {
            wanted.iter_mut().zip(share.owners).for_each(|(new, old)| *new = new.filter(|&id| id != old));
            more = share.usage;
        }
        self.expect_quota(&wanted, more, false)?;
        for (kind, id) in QuotaKind::ALL.into_iter().zip(wanted) {
            if let Some(id) = id {
                self.enter_owner(kind, id)?;
            }
        }
        Ok(())
    }

    /// How many of `blocks` more blocks the quotas of an inode's owners allow: at least one if
    /// `partly`, else all. Errors: `QuotaExceeded`; then nothing has changed.
    pub(crate) fn admit_blocks(&mut self, ino: NodeId, blocks: u64, partly: bool) -> Result<u64> {
        if blocks == 0 || self.writer.recovering || !self.writer.options.limits || !self.writer.quotas.counts(ino) {
            return Ok(blocks);
        }
        let Some(share) = Share::of_block(&self.node(ino)?, self.geometry().features) else { return Ok(blocks) };
        let size = self.geometry().block_size() as u64;
        let more = Usage { inodes: 0, bytes: blocks.saturating_mul(size) };
        Ok(self.expect_quota(&share.owners.map(Some), more, partly)? / size)
    }

    /// The bytes that the limits of all these owners still allow. Starts the grace time of an owner
    /// that `more` takes beyond its soft limit.
    fn expect_quota(&mut self, owners: &[Option<u32>; 3], more: Usage, partly: bool) -> Result<u64> {
        if self.writer.recovering || !self.writer.options.limits {
            return Ok(more.bytes);
        }
        let (now, size) = (self.device.unix_ns() / 1_000_000_000, self.geometry().block_size() as u64);
        let mut bytes = more.bytes;
        let mut known = Vec::new();
        for (kind, id) in QuotaKind::ALL.into_iter().zip(owners) {
            let Some(id) = *id else { continue };
            let found = self.known_record(kind, id);
            let Some(found) = self.or_distrust(found)?.flatten() else { continue };
            let Some(ledger) = self.writer.quotas.ledger(kind) else { continue };
            let inodes = LimitNow::of_inodes(ledger, &found.record, now);
            if let verdict @ (Verdict::Hard(_) | Verdict::Soft(_)) = inodes.ask(more.inodes) {
                return Err(exceeded(kind, &found.record, verdict, "inodes"));
            }
            let limit = LimitNow::of_bytes(ledger, &found.record, now);
            let verdict = limit.ask(more.bytes);
            let most = verdict.most() / size * size;
            if most < more.bytes && (!partly || most == 0) {
                return Err(exceeded(kind, &found.record, verdict, "KiB"));
            }
            bytes = bytes.min(most);
            known.push((kind, id, inodes, limit));
        }
        for (kind, id, inodes, limit) in known {
            let (of_inodes, of_bytes) = (inodes.until_with(more.inodes), limit.until_with(bytes));
            let Some(ledger) = self.writer.quotas.ledger_mut(kind) else { continue };
            let Some(known) = ledger.known.get_mut(&id) else { continue };
            if (known.record.inodes.until, known.record.bytes.until) != (of_inodes, of_bytes) {
                (known.record.inodes.until, known.record.bytes.until) = (of_inodes, of_bytes);
                ledger.pending.entry(id).or_default();
            }
        }
        Ok(bytes)
    }

    /// Writes changed usage into the quota files, and the files to the device. Errors: `NoSpace`
    /// (no section for data), `Device`, which stops the volume.
    pub(crate) fn flush_quotas(&mut self) -> Result<()> {
        for kind in QuotaKind::ALL {
            let Some(ledger) = self.writer.quotas.ledger_mut(kind) else { continue };
            for (id, change) in std::mem::take(&mut ledger.pending) {
                if let Err(error) = self.write_record(kind, id, change) {
                    self.distrust_quotas(&error);
                    break;
                }
            }
            if let Some(ledger) = self.writer.quotas.ledger_mut(kind) {
                ledger.shrink();
            }
        }
        // Skip files without dirty pages: their inodes may be unreadable.
        let files: Vec<NodeId> = self.writer.quotas.files().map(|(_, ino)| ino).collect();
        let files: Vec<NodeId> =
            files.into_iter().filter(|&ino| self.writer.pages().dirty_pages(ino, 0).next().is_some()).collect();
        if files.is_empty() {
            return Ok(());
        }
        let written = self.write_back(&files, Why { cause: Cause::Checkpoint, ..Why::BACKGROUND });
        self.or_stop(written)
    }

    /// Writes the current record of an id into its file, or removes an empty one.
    fn write_record(&mut self, kind: QuotaKind, id: u32, change: Change) -> Result<()> {
        let found = self.known_record(kind, id)?;
        let mut record = found.map_or(Record { id, ..Record::default() }, |known| known.record);
        record.usage = change.of(record.usage);
        for (limit, used) in
            [(&mut record.inodes, record.usage.inodes), (&mut record.bytes, record.usage.bytes.div_ceil(1024))]
        {
            if limit.soft == 0 || used <= limit.soft {
                limit.until = 0;
            }
        }
        let at = match found {
            None if record.is_needless() => return Ok(()),
            None => self.with_quota_tree(kind, |tree| tree.insert(&record))?,
            Some(_) if record.is_needless() => {
                if let Some(ledger) = self.writer.quotas.ledger_mut(kind) {
                    ledger.known.remove(&id);
                }
                return self.with_quota_tree(kind, |tree| tree.remove(id));
            }
            Some(known) => {
                self.with_quota_tree(kind, |tree| tree.update(known.at, &record))?;
                known.at
            }
        };
        self.remember(kind, at, record);
        Ok(())
    }

    /// Whether quota files need writing, or the checkpoint's quota flag is out of date.
    pub(crate) fn has_quotas_to_write(&self) -> bool {
        let pages = self.writer.locked_pages();
        let marked = self.writer.quotas.are_kept() && self.state.head.has(flag::QUOTA_NEEDS_FSCK);
        marked || self.writer.quotas.pending() > 0 || self.writer.quotas.files().any(|(_, ino)| pages.dirty_of(ino) > 0)
    }

    /// The most pages that the quota files may have to write.
    pub(crate) fn quota_pages(&self) -> u64 {
        self.writer.quotas.pending() as u64
    }

    /// Recounts the usage of all owners from all inodes; the files have it with the next
    /// checkpoint, and limits stay. An inconsistent file is made anew, without limits. Errors:
    /// `Corrupt` (an inode or a quota file's inode; then usage is not tracked), `Device`,
    /// `NoSpace`. Cost: reads every inode.
    pub fn recount_quotas(&mut self) -> Result<()> {
        self.expect_running()?;
        if !self.writer.quotas.exist() {
            return Ok(());
        }
        let counted = self.count_owners()?;
        self.writer.quotas.trust();
        let renewed = QuotaKind::ALL.into_iter().zip(&counted).try_for_each(|(kind, usages)| self.renew(kind, usages));
        if let Err(error) = &renewed {
            self.writer.quotas.distrust(error.to_string());
        }
        renewed
    }

    fn count_owners(&mut self) -> Result<[Usages; 3]> {
        let mut counted: [Usages; 3] = Default::default();
        let features = self.geometry().features;
        for nid in NodeId::ROOT.0..u32::try_from(self.geometry().nid_end()).unwrap_or(u32::MAX) {
            let (nid, entry) = (NodeId(nid), self.entry(NodeId(nid))?);
            if entry.is_free() || entry.ino() != nid || self.writer.quotas.is_file(nid) {
                continue;
            }
            let Some(share) = Share::of_block(&self.node(nid)?, features) else { continue };
            for (usages, owner) in counted.iter_mut().zip(share.owners) {
                let usage = usages.entry(owner).or_default();
                usage.inodes = usage.inodes.saturating_add(share.usage.inodes);
                usage.bytes = usage.bytes.saturating_add(share.usage.bytes);
            }
        }
        Ok(counted)
    }

    fn renew(&mut self, kind: QuotaKind, counted: &Usages) -> Result<()> {
        let Some(ino) = self.writer.quotas.ledger(kind).map(|ledger| ledger.ino) else { return Ok(()) };
        expect_quota_file(&self.inode_at(ino)?)?;
        let read = self.with_quota_tree(kind, |tree| {
            let records = tree.records()?;
            Ok((tree.stray()?.is_some().then(|| tree.header().graces()), records))
        });
        let records = match read {
            Ok((None, records)) => records,
            Ok((Some(graces), records)) => {
                self.replace_quota_file(ino, &file::of_records(kind, graces, records.values().copied()))?;
                records
            }
            Err(error) if error.kind == ErrorKind::Corrupt => {
                self.replace_quota_file(ino, &file::of_usages(kind, counted))?;
                return self.open_quota(kind);
            }
            Err(error) => return Err(error),
        };
        self.open_quota(kind)?;
        let Some(ledger) = self.writer.quotas.ledger_mut(kind) else { return Ok(()) };
        ledger.known.clear();
        ledger.pending.clear();
        let ids: BTreeSet<u32> = records.keys().chain(counted.keys()).copied().collect();
        for id in ids {
            let of = |found: Option<Usage>| found.unwrap_or_default();
            let (said, used) = (of(records.get(&id).map(|record| record.usage)), of(counted.get(&id).copied()));
            if said != used {
                ledger.pending.insert(id, Change::between(said, used));
            }
        }
        Ok(())
    }

    /// Replaces the whole content of a quota file.
    fn replace_quota_file(&mut self, ino: NodeId, content: &[u8]) -> Result<()> {
        let size = self.geometry().block_size();
        let pages = content.len().div_ceil(size) as u64;
        let had = self.reserve(ino, 0, pages)?;
        if had < pages {
            return Err(FsError::new(ErrorKind::NoSpace, format!("a quota file needs {pages} pages and got {had}")));
        }
        self.writer.pages().truncate(ino, u32::try_from(pages).unwrap_or(u32::MAX));
        self.free_pages_from(ino, pages)?;
        for (page, part) in (0..).zip(content.chunks(size)) {
            let mut bytes = vec![0; size];
            put(&mut bytes, 0, part);
            self.writer.pages().change(ino, page, Page::Bytes(bytes.into()), false);
        }
        self.edit_head(ino, |head| head.size = (content.len() as u64).into())
    }
}

/// Refuses an inode that cannot be a quota file. Errors: `Corrupt`.
fn expect_quota_file(inode: &Inode) -> Result<()> {
    let is_one = inode.kind == FileKind::Regular
        && !inode.head.has_inline(inline::DATA)
        && !inode.is_encrypted()
        && !inode.is_compressed();
    if is_one {
        return Ok(());
    }
    let detail = format!("a {} that the superblock names as a quota file; expected a plain file", inode.kind);
    Err(Defect::new(FindingKind::Quota, detail).of(inode.nid).into_error())
}

fn exceeded(kind: QuotaKind, record: &Record, verdict: Verdict, unit: &str) -> FsError {
    let limit = if unit == "inodes" { &record.inodes } else { &record.bytes };
    let (what, limit) = match verdict {
        Verdict::Soft(_) => ("has exceeded its soft limit for too long", limit.soft),
        _ => ("would exceed its limit", limit.hard),
    };
    let detail = format!("{} {} {what} of {limit} {unit}", kind.name(), record.id);
    FsError::new(ErrorKind::QuotaExceeded, detail)
}

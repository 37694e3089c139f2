//! The quota state of a writable mount: changes since the files were last written, and the records
//! that were needed (dquot.c, `dquot_alloc_inode`, `__dquot_alloc_space`, `__dquot_transfer`).
//!
//! Code that changes an inode reports what it counted before and counts now; nothing else is
//! accounted. Limits are checked before any change.

use std::collections::BTreeMap;

use super::layout::{Limit, Record};
use super::tree::RecordPlace;
use super::{QuotaKind, Share, Usage};
use crate::ids::NodeId;

/// The most clean records in memory per kind.
const KNOWN_MAX: usize = 16_384;
/// The unit of byte limits in quota files, in bytes.
const LIMIT_UNIT: u64 = 1024;

/// A difference from the usage in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Change {
    inodes: i64,
    bytes: i64,
}

impl Change {
    /// The difference between the file's usage and the current one.
    pub fn between(file: Usage, now: Usage) -> Self {
        Self {
            inodes: now.inodes.wrapping_sub(file.inodes).cast_signed(),
            bytes: now.bytes.wrapping_sub(file.bytes).cast_signed(),
        }
    }

    fn add(&mut self, usage: Usage, sign: i64) {
        let signed = |count: u64| i64::try_from(count).unwrap_or(i64::MAX).saturating_mul(sign);
        self.inodes = self.inodes.saturating_add(signed(usage.inodes));
        self.bytes = self.bytes.saturating_add(signed(usage.bytes));
    }

    /// Applies the difference to a usage; it saturates at zero, whatever the file contained
    /// (dquot.c, `dquot_decr_space`).
    pub fn of(self, usage: Usage) -> Usage {
        Usage {
            inodes: usage.inodes.saturating_add_signed(self.inodes),
            bytes: usage.bytes.saturating_add_signed(self.bytes),
        }
    }
}

/// A record in memory and its location in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub at: RecordPlace,
    pub record: Record,
}

/// The state of one quota file.
#[derive(Clone, Debug)]
pub(crate) struct Ledger {
    pub ino: NodeId,
    /// Grace times in seconds, for bytes and inodes.
    pub grace: (u64, u64),
    /// Ids whose records must be written, with the difference.
    pub pending: BTreeMap<u32, Change>,
    pub known: BTreeMap<u32, Known>,
}

impl Ledger {
    /// The current usage of an id whose record is this.
    pub fn usage(&self, record: &Record) -> Usage {
        self.pending.get(&record.id).copied().unwrap_or_default().of(record.usage)
    }

    /// Forgets clean records if there are too many.
    pub fn shrink(&mut self) {
        if self.known.len() > KNOWN_MAX {
            self.known.retain(|id, _| self.pending.contains_key(id));
        }
    }
}

/// The quotas of a mounted volume.
#[derive(Clone, Debug, Default)]
pub(crate) struct Quotas {
    ledgers: [Option<Ledger>; 3],
    /// Why usage is not tracked although there are quota files; the checkpoint then marks them as
    /// untrusted.
    untrusted: Option<String>,
}

impl Quotas {
    /// The quotas for the files that a superblock names; inode 0 means none.
    pub fn new(inodes: [NodeId; 3]) -> Self {
        let (pending, known) = (BTreeMap::new, BTreeMap::new);
        let ledger =
            |ino: NodeId| ino.some().map(|ino| Ledger { ino, grace: (0, 0), pending: pending(), known: known() });
        Self { ledgers: inodes.map(ledger), untrusted: None }
    }

    /// Whether there are quota files.
    pub fn exist(&self) -> bool {
        self.ledgers.iter().any(Option::is_some)
    }

    /// Whether usage is tracked.
    pub fn are_kept(&self) -> bool {
        self.untrusted.is_none() && self.exist()
    }

    /// Stops tracking usage and keeps the first reason. Returns whether this is the first.
    pub fn distrust(&mut self, why: String) -> bool {
        let first = self.untrusted.is_none();
        self.untrusted.get_or_insert(why);
        for ledger in self.ledgers.iter_mut().flatten() {
            ledger.pending.clear();
            ledger.known.clear();
        }
        first
    }

    /// Resumes tracking usage after a recount.
    pub fn trust(&mut self) {
        self.untrusted = None;
    }

    /// Why usage is not tracked.
    pub fn untrusted(&self) -> Option<&str> {
        self.untrusted.as_deref()
    }

    /// The ledger of a kind, if usage is tracked.
    pub fn ledger(&self, kind: QuotaKind) -> Option<&Ledger> {
        self.ledgers.get(kind.index()).and_then(Option::as_ref).filter(|_| self.untrusted.is_none())
    }

    /// The mutable ledger of a kind, if usage is tracked.
    pub fn ledger_mut(&mut self, kind: QuotaKind) -> Option<&mut Ledger> {
        let kept = self.untrusted.is_none();
        self.ledgers.get_mut(kind.index()).and_then(Option::as_mut).filter(|_| kept)
    }

    /// The inodes of quota files, with their kinds.
    pub fn files(&self) -> impl Iterator<Item = (QuotaKind, NodeId)> + '_ {
        QuotaKind::ALL.into_iter().zip(&self.ledgers).filter_map(|(kind, ledger)| Some((kind, ledger.as_ref()?.ino)))
    }

    /// Whether an inode is a quota file; these count for no owner (super.c, `f2fs_quota_enable`).
    pub fn is_file(&self, ino: NodeId) -> bool {
        self.ledgers.iter().flatten().any(|ledger| ledger.ino == ino)
    }

    /// Whether the usage of an inode is tracked.
    pub fn counts(&self, ino: NodeId) -> bool {
        self.are_kept() && !self.is_file(ino)
    }

    /// The number of records to be written.
    pub fn pending(&self) -> usize {
        self.ledgers.iter().flatten().map(|ledger| ledger.pending.len()).sum()
    }

    /// Accounts a change of an inode's share.
    pub fn account(&mut self, before: Option<Share>, after: Option<Share>) {
        if before == after || self.untrusted.is_some() {
            return;
        }
        for (share, sign) in [(before, -1), (after, 1)] {
            let Some(Share { owners, usage }) = share else { continue };
            for (ledger, id) in self.ledgers.iter_mut().zip(owners) {
                if let Some(ledger) = ledger {
                    ledger.pending.entry(id).or_default().add(usage, sign);
                }
            }
        }
    }
}

/// The answer of a limit to more usage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// This much more is allowed.
    Allowed(u64),
    /// The hard limit leaves this much.
    Hard(u64),
    /// The grace time of the soft limit is over; the soft limit leaves this much.
    Soft(u64),
}

impl Verdict {
    /// The amount that is allowed.
    pub const fn most(self) -> u64 {
        match self {
            Self::Allowed(most) | Self::Hard(most) | Self::Soft(most) => most,
        }
    }
}

/// A limit at a point in time; `unit` is the unit of the limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LimitNow {
    pub limit: Limit,
    pub unit: u64,
    pub used: u64,
    pub now: u64,
    pub grace: u64,
}

impl LimitNow {
    pub fn of_bytes(ledger: &Ledger, record: &Record, now: u64) -> Self {
        let used = ledger.usage(record).bytes;
        Self { limit: record.bytes, unit: LIMIT_UNIT, used, now, grace: ledger.grace.0 }
    }

    pub fn of_inodes(ledger: &Ledger, record: &Record, now: u64) -> Self {
        Self { limit: record.inodes, unit: 1, used: ledger.usage(record).inodes, now, grace: ledger.grace.1 }
    }

    /// What is left up to a limit; `None` without a limit.
    fn left(&self, limit: u64) -> Option<u64> {
        (limit != 0).then(|| limit.saturating_mul(self.unit).saturating_sub(self.used))
    }

    /// When the grace time ends, before more is used; it does not run while usage is within the
    /// soft limit.
    fn until(&self) -> u64 {
        let is_over = self.limit.soft != 0 && self.used > self.limit.soft.saturating_mul(self.unit);
        if is_over { self.limit.until } else { 0 }
    }

    /// Whether `more` may be used (dquot.c, `dquot_add_space`, `dquot_add_inodes`).
    pub fn ask(&self, more: u64) -> Verdict {
        if let Some(left) = self.left(self.limit.hard).filter(|&left| more > left) {
            return Verdict::Hard(left);
        }
        match self.left(self.limit.soft).filter(|&left| more > left) {
            Some(left) if self.until() != 0 && self.now >= self.until() => Verdict::Soft(left),
            _ => Verdict::Allowed(more),
        }
    }

    /// When the grace time ends once `more` is used; it starts when usage exceeds the soft limit.
    pub fn until_with(&self, more: u64) -> u64 {
        match self.left(self.limit.soft) {
            Some(left) if more > left || self.until() != 0 => match self.until() {
                0 => self.now.saturating_add(self.grace).max(1),
                until => until,
            },
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(hard: u64, soft: u64, until: u64, used: u64, now: u64) -> LimitNow {
        LimitNow { limit: Limit { hard, soft, until }, unit: 1024, used, now, grace: 100 }
    }

    #[test]
    fn limits_are_those_of_linux() {
        assert_eq!(limit(0, 0, 0, 1 << 40, 5).ask(1 << 40), Verdict::Allowed(1 << 40));
        // Up to the limit and no byte more.
        assert_eq!(limit(10, 0, 0, 4096, 5).ask(6144), Verdict::Allowed(6144));
        assert_eq!(limit(10, 0, 0, 4096, 5).ask(6145), Verdict::Hard(6144));
        assert_eq!(limit(10, 0, 0, 20_000, 5).ask(1), Verdict::Hard(0));
        // Over the soft limit: the grace time has not begun, runs, has ended.
        assert_eq!(limit(0, 10, 0, 4096, 5).ask(8192), Verdict::Allowed(8192));
        assert_eq!(limit(0, 10, 6, 12_000, 5).ask(8192), Verdict::Allowed(8192));
        assert_eq!(limit(0, 10, 5, 12_000, 5).ask(1), Verdict::Soft(0));
        // An old end of the grace time does not count once usage is within the limit.
        assert_eq!(limit(0, 10, 5, 4096, 9).ask(8192), Verdict::Allowed(8192));
        assert_eq!(limit(0, 10, 5, 4096, 9).until_with(8192), 109);
        assert_eq!(limit(0, 10, 50, 12_000, 9).until_with(1), 50);
        assert_eq!(limit(0, 10, 50, 4096, 9).until_with(6144), 0);
        assert_eq!(limit(0, 0, 50, 4096, 9).until_with(6144), 0);
    }

    #[test]
    fn shares_move_between_owners() {
        let mut quotas = Quotas::new([NodeId(4), NodeId(5), NodeId(0)]);
        let share = |uid, inodes, bytes| Some(Share { owners: [uid, 7, 9], usage: Usage { inodes, bytes } });
        quotas.account(None, share(1, 1, 0));
        quotas.account(share(1, 1, 0), share(1, 1, 8192));
        quotas.account(share(1, 1, 8192), share(2, 1, 8192));
        let user = quotas.ledger(QuotaKind::User).unwrap();
        let of = |id: u32| user.usage(&Record { id, usage: Usage { inodes: 5, bytes: 5 }, ..Record::default() });
        assert_eq!((of(1), of(2)), (Usage { inodes: 5, bytes: 5 }, Usage { inodes: 6, bytes: 8197 }));
        let group = quotas.ledger(QuotaKind::Group).unwrap();
        assert_eq!(group.usage(&Record { id: 7, ..Record::default() }), Usage { inodes: 1, bytes: 8192 });
        assert!(quotas.ledger(QuotaKind::Project).is_none() && quotas.is_file(NodeId(5)) && !quotas.is_file(NodeId(0)));
        assert!(quotas.distrust("why".into()) && !quotas.distrust("again".into()));
        quotas.account(None, share(1, 1, 0));
        assert_eq!((quotas.pending(), quotas.untrusted()), (0, Some("why")));
    }
}

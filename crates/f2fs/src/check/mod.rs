//! Checks a whole volume against the format.
//!
//! One pass starts at the roots and follows everything they refer to (`walk`, `directory`); each
//! block is claimed once (`segments`) and compared with the tables. Then come nodes that nothing
//! refers to (`lost`), the summaries (`summaries`) and the counts (`totals`). Every node and every
//! directory block is read once, adjacent ones in one request; of file data only compressed
//! clusters are read, since only they can be checked. Nothing recurses and nothing is visited
//! twice, so a hostile volume costs no more than its size.

mod batch;
mod content;
mod directory;
mod file;
mod inode;
mod inodes;
mod lost;
mod nat;
mod packs;
mod quota;
mod repair;
mod report;
mod resize;
mod segments;
mod summaries;
mod superblocks;
mod totals;
mod walk;

use nandkit_block::BlockDevice;
use nandkit_codec::compression::Decompressor;
use nandkit_units::Clock;
use nandkit_vfs::check::{Finding, Report};
use nandkit_vfs::{ErrorKind, Result};

use crate::blocks::Blocks;
use crate::checkpoint_state::CheckpointState;
use crate::device::{DeviceBlocks, Devices};
use crate::findings::{Defect, FindingKind};
use crate::ids::NodeId;
use crate::layout::{Geometry, NodeOffset, Superblock, inode as inode_layout};
use crate::open::{choose_superblock, roll_forward};
use inodes::{Inodes, Paths, state};
use nat::NatTable;
use quota::Quotas;
use repair::mend::Mender;
use repair::rebuild::ClaimedBlocks;
pub use repair::{Repair, Waiting, repair};
use report::{Draft, WHOLE_VOLUME, naming_inode, of};
pub use resize::{Resize, resize};
use segments::Segments;
use summaries::Summaries;
use totals::Totals;
use walk::Expected;

/// Checks the volume on these devices, given in the order of its superblock. Writes nothing.
///
/// Findings are sorted by offset, those without one first. Counts cover what the roots lead to:
/// `files` (regular), `directories`, `other_inodes` (symlinks, devices, fifos, sockets), `nodes`
/// (including inodes), and `blocks_used` of the main area. If the paths of all findings exceed
/// [`nandkit_vfs::path::PathBudget`], only their last components are shown, after `/...`.
///
/// A volume with a usable superblock always gives a report, however damaged it is; so does one
/// without if something shows that it was F2FS. Unreadable sectors are findings. Errors: `Corrupt`
/// (not F2FS at all), `InvalidArgument` (the wrong number of devices), `NotSupported` (an
/// unsupported block size). Cost: reads all metadata, nodes and directories, and compressed
/// clusters. Memory: two bits per block of segments in use, ten bytes per nid, 40 per inode, and up
/// to about 100 MB of pending work.
pub fn check<D: BlockDevice>(devices: Vec<D>, clock: Clock) -> Result<Report> {
    let mut devices = Devices::new(devices, clock)?;
    let mut report = Draft::default();
    let mut told = Vec::new();
    let chosen = choose_superblock(&devices, &mut |defect| told.push(defect));
    if let Ok((_, geometry, _)) = &chosen {
        report.block_size = geometry.block_size() as u32;
    }
    told.into_iter().for_each(|defect| report.take(defect));
    let (superblock, geometry, _) = match chosen {
        Ok(chosen) => chosen,
        Err(error) if error.kind == ErrorKind::Corrupt && superblocks::any(&devices) => {
            report.fault(FindingKind::Superblock, WHOLE_VOLUME, || error.to_string());
            return Ok(finished(report, None));
        }
        Err(error) => return Err(error),
    };
    superblocks::check(&devices, &superblock, &mut report);
    let mut told = Vec::new();
    devices.arrange(&geometry, &mut |defect| told.push(defect))?;
    told.into_iter().for_each(|defect| report.take(defect));
    let blocks = DeviceBlocks { devices, geometry };
    Ok(finished_check(&blocks, &superblock, report))
}

/// Checks everything except the superblocks.
fn finished_check(blocks: &dyn Blocks, superblock: &Superblock, mut report: Draft) -> Report {
    let Some((pack, state)) = packs::check(blocks, &mut report) else { return finished(report, None) };
    roll_forward::look(blocks, &pack, &state, &mut |defect: Defect| report.take(defect));
    let mut check = Check::new(blocks, superblock, &state, report);
    check.run(superblock);
    let Check { report, inodes, totals, segments, .. } = check;
    let met = Met { blocks, inodes: &inodes, totals, claimed: segments.totals().0 };
    finished(report, Some(met))
}

/// The counts for the report.
struct Met<'a> {
    blocks: &'a dyn Blocks,
    inodes: &'a Inodes,
    totals: Totals,
    claimed: u64,
}

fn finished(report: Draft, met: Option<Met<'_>>) -> Report {
    let mut paths = met.as_ref().map(|met| Paths::new(met.blocks, met.inodes));
    let with_path = |finding: Finding| {
        let inode = finding.inode.and_then(|inode| u32::try_from(inode.0).ok());
        let path = inode.and_then(|inode| paths.as_mut()?.path(NodeId(inode)));
        let finding = naming_inode(finding);
        match path {
            Some(path) => finding.in_file(&path),
            None => finding,
        }
    };
    let findings = report.finish().into_iter().map(with_path).collect();
    let (totals, claimed) = met.map_or((Totals::default(), 0), |met| (met.totals, met.claimed));
    let counts = vec![
        ("files", totals.files),
        ("directories", totals.directories),
        ("other_inodes", totals.others),
        ("nodes", totals.nodes),
        ("blocks_used", claimed),
    ];
    Report { findings, counts, notes: Vec::new() }
}

/// A check in progress.
struct Check<'a> {
    blocks: &'a dyn Blocks,
    geometry: &'a Geometry,
    state: &'a CheckpointState,
    report: Draft,
    nat: NatTable,
    segments: Segments,
    summaries: Summaries,
    inodes: Inodes,
    totals: Totals,
    quotas: Quotas,
    checksum_seed: u32,
    decompressor: Option<Decompressor>,
    compared_pairs: u32,
    /// Collects changes, in a repair.
    mender: Option<Mender>,
    /// Collects all claims, if tables are to be rebuilt from them.
    claimed: Option<ClaimedBlocks>,
    /// Inodes that were reached but not yet looked at.
    pending: Vec<Expected>,
    /// Nodes and directory blocks past the end of the devices.
    nodes_behind_end: u64,
    /// Whether everything reachable could be read; only then do counts mean anything.
    whole: bool,
}

impl<'a> Check<'a> {
    fn new(blocks: &'a dyn Blocks, superblock: &Superblock, state: &'a CheckpointState, mut report: Draft) -> Self {
        Self {
            blocks,
            geometry: blocks.geometry(),
            state,
            nat: NatTable::load(blocks, state, &mut report),
            segments: Segments::load(blocks, state, &mut report),
            report,
            summaries: Summaries::default(),
            inodes: Inodes::default(),
            totals: Totals::default(),
            quotas: Quotas::default(),
            checksum_seed: inode_layout::checksum_seed(&superblock.uuid),
            decompressor: None,
            compared_pairs: 0,
            mender: None,
            claimed: None,
            pending: Vec::new(),
            nodes_behind_end: 0,
            whole: true,
        }
    }

    fn run(&mut self, superblock: &Superblock) {
        self.nat.check(self.geometry, self.state, &mut self.report);
        self.segments.check_logs(self.geometry, self.state, &mut self.report);
        self.walk_from_roots(superblock);
        self.find_lost();
        if self.nodes_behind_end > 0 {
            let nodes = self.nodes_behind_end;
            let detail = || format!("{nodes} nodes and directory blocks are past the end of the device");
            self.report.fault(FindingKind::CutShort, WHOLE_VOLUME, detail);
        }
        self.check_links();
        self.check_counts();
        self.check_quotas(superblock);
        self.segments.compare(self.geometry, self.whole, &mut self.report);
        std::mem::take(&mut self.summaries).finish(self.blocks, self.state, &mut self.report);
    }

    /// Visits everything that the root, quota files and open inodes lead to.
    fn walk_from_roots(&mut self, superblock: &Superblock) {
        self.add_root(NodeId::ROOT, 0);
        self.quotas.wanted = superblock.quota_inodes.iter().any(|field| field.get() != 0);
        for field in &superblock.quota_inodes {
            if let Some(nid) = NodeId(field.get()).some() {
                self.add_root(nid, state::QUOTA);
            }
        }
        let mut orphans = self.state.orphans.clone();
        orphans.sort_unstable();
        orphans.dedup();
        for nid in orphans {
            self.add_root(nid, state::ORPHAN);
        }
        self.walk();
    }

    /// Adds an inode that the superblock or the checkpoint names.
    fn add_root(&mut self, nid: NodeId, flag: u8) {
        match self.reach(nid, nid, NodeOffset::INODE) {
            Some(expected) => {
                self.inodes.change(nid).flags |= flag;
                self.pending.push(expected);
            }
            None => self.whole = false,
        }
        if nid == NodeId::ROOT && self.pending.is_empty() {
            self.report.fault(FindingKind::Directory, of(nid), || "there is no root directory".into());
        }
    }
}

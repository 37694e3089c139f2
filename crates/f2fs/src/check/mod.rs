//! A whole volume held against what the format says of it.
//!
//! One pass from the roots over all that they lead to (`walk`, `directory`), each block claimed
//! once (`segments`) and compared with the tables; then what nothing led to (`lost`), the summaries
//! (`summaries`) and the counts (`totals`). Every node and every block of a directory is read once,
//! in requests as long as they lie together; of file data only compressed clusters, which can be
//! wrong, are read. Nothing recurses, and nothing is looked at twice, so that a hostile volume
//! costs no more than its size.

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

/// Checks a volume that lies on these devices, in the order in which its superblock names them.
/// Nothing is written.
///
/// The findings are by offset, those without one first. Counts, of what was reached: `files`
/// (regular ones), `directories`, `other_inodes` (links, devices, fifos, sockets), `nodes` (inodes
/// included); and `blocks_used` of the main area. Where the paths of all findings take more than
/// [`nandkit_vfs::path::PathBudget`] allows, they are the last components behind `/...`.
///
/// A volume with a superblock that can be used always gives a report, however bad it is; so does
/// one without, where something says that it was F2FS. Sectors that cannot be read are findings.
/// Errors: `Corrupt` (no F2FS at all), `InvalidArgument` (fewer or more devices than the volume
/// has), `NotSupported` (a block size that cannot be read). Cost: a read of all metadata, nodes and
/// directories, and of compressed clusters. Memory: two bits for each block of segments in use, ten
/// bytes for each nid, 40 for each inode, and up to some 100 MB of work that waits.
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

/// Checks all but the superblocks.
fn finished_check(blocks: &dyn Blocks, superblock: &Superblock, mut report: Draft) -> Report {
    let Some((pack, state)) = packs::check(blocks, &mut report) else { return finished(report, None) };
    roll_forward::look(blocks, &pack, &state, &mut |defect: Defect| report.take(defect));
    let mut check = Check::new(blocks, superblock, &state, report);
    check.run(superblock);
    let Check { report, inodes, totals, segments, .. } = check;
    let met = Met { blocks, inodes: &inodes, totals, claimed: segments.totals().0 };
    finished(report, Some(met))
}

/// What was met, for the report.
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

/// A check under way.
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
    /// Takes changes, where this is a repair.
    mender: Option<Mender>,
    /// Takes all claims, where tables are to be made of them.
    claimed: Option<ClaimedBlocks>,
    /// Inodes that were reached and not yet looked at.
    pending: Vec<Expected>,
    /// Nodes, and blocks of directories, that lie behind the end of the devices.
    nodes_behind_end: u64,
    /// Everything that something led to could be looked at: only then counts say anything.
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
            let detail = || format!("{nodes} nodes and blocks of directories lie behind the end of the device");
            self.report.fault(FindingKind::CutShort, WHOLE_VOLUME, detail);
        }
        self.check_links();
        self.check_counts();
        self.check_quotas(superblock);
        self.segments.compare(self.geometry, self.whole, &mut self.report);
        std::mem::take(&mut self.summaries).finish(self.blocks, self.state, &mut self.report);
    }

    /// All that root, quota files and what is open lead to.
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

    /// An inode that the superblock or the checkpoint names.
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

//! Checking every byte of a volume against the format.

mod block;
mod paths;
mod plan;
mod reattach;
mod repair;
mod tree;

use std::collections::BTreeSet;

use nandkit_flash::Flash;
use nandkit_units::BlockIndex;
use nandkit_vfs::check::{Finding, Findings, Report};
use nandkit_vfs::path::{Next, PathBudget, Step, walk};
use nandkit_vfs::{FileKind, FileSystem, Result};
use rayon::iter::{IntoParallelIterator, ParallelIterator};

use crate::catalogue::Queue;
use crate::damage::{Damage, DamageKind};
use crate::volume::Jffs2;
use crate::{Ino, NodeAddress};
pub(crate) use paths::Paths;

/// Numbers of bytes by class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ByteClasses {
    /// Data, names and values. Checksums detect any flipped bit.
    pub(crate) content: u64,
    /// Blank flash. A cleared bit is detected; the loss of a whole block's content is not.
    pub(crate) blank: u64,
    /// Bytes that are neither nodes nor padding nor blank flash.
    pub(crate) damaged: u64,
    /// Nodes marked obsolete in place. Only their headers are checked.
    pub(crate) obsolete: u64,
}

impl ByteClasses {
    fn add(&mut self, other: &Self) {
        self.content += other.content;
        self.obsolete += other.obsolete;
        self.blank += other.blank;
        self.damaged += other.damaged;
    }
}

/// The findings of a pass over the volume.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    /// The damage, by address.
    pub(crate) damage: Vec<Damage>,
    /// The number of intact nodes.
    nodes: u64,
    /// The number of inodes with a name.
    inodes: u64,
    pub(crate) bytes: ByteClasses,
}

/// The result of checking one block.
#[derive(Clone, Debug, Default)]
pub(crate) struct BlockReport {
    pub(crate) damage: Vec<Damage>,
    pub(crate) nodes: u64,
    pub(crate) bytes: ByteClasses,
    pub(crate) nameless: tree::Nameless,
}

impl<F: Flash> Jffs2<F> {
    /// Checks every byte and every inode: checksums, decompressed data, summaries against their
    /// blocks, cleanmarkers, free flash, references, and names against inodes. Bytes in write
    /// buffers count as written.
    ///
    /// The report counts `files`, `directories`, `nodes`, `inodes`, `content_bytes`, `blank_bytes`
    /// and `damaged_bytes`. `parallel` is as in [`crate::MountOptions`], and does not affect the
    /// result. Errors: `Device`. Cost: one pass over the device, one over the inodes' nodes, one
    /// over the tree.
    pub fn check(&self, parallel: bool) -> Result<Report> {
        let survey = self.survey(parallel)?;
        Ok(self.report(&survey, self.named(&survey.damage)))
    }

    /// Makes a pass over the blocks and one over the inodes.
    pub(crate) fn survey(&self, parallel: bool) -> Result<Survey> {
        let blocks = self.catalogue.blocks.len() as u32;
        let check = |buffer: &mut Vec<u8>, block| self.check_block(BlockIndex(block), buffer);
        let reports: Vec<BlockReport> = if parallel {
            (0..blocks).into_par_iter().map_init(Vec::new, check).collect::<Result<_>>()?
        } else {
            let mut buffer = Vec::new();
            (0..blocks).map(|block| check(&mut buffer, block)).collect::<Result<_>>()?
        };
        let mut survey = Survey::default();
        let mut nameless = tree::Nameless::default();
        for block in reports {
            survey.nodes += block.nodes;
            survey.bytes.add(&block.bytes);
            survey.damage.extend(block.damage);
            nameless.add(block.nameless);
        }
        for (number, inode) in &self.inodes {
            if inode.links > 0 {
                survey.inodes += 1;
                self.body(*number)?;
            }
        }
        for id in self.xattrs.attributes.keys() {
            self.attribute_content(*id)?;
        }
        let damage = &mut survey.damage;
        // The block pass already reported these nodes: skip duplicates.
        let known: BTreeSet<NodeAddress> =
            damage.iter().filter(|damage| of_bytes(damage.kind)).map(|damage| damage.at).collect();
        let uncorrectable: BTreeSet<NodeAddress> = damage
            .iter()
            .filter(|damage| damage.kind == DamageKind::Uncorrectable && damage.inode.is_some())
            .map(|damage| damage.at)
            .collect();
        // An earlier reader of the page did not know which inode it belongs to.
        let is_known = |damage: &Damage| match damage.kind {
            DamageKind::Uncorrectable => damage.inode.is_none() && uncorrectable.contains(&damage.at),
            kind => of_bytes(kind) && known.contains(&damage.at),
        };
        let is_new = |damage: &Damage| !is_known(damage);
        damage.extend(self.damage.sorted().into_iter().filter(is_new));
        damage.extend(self.tree_faults()?.into_iter().map(|fault| fault.damage));
        damage.extend(nameless.remains(self));
        damage.sort();
        damage.dedup();
        Ok(survey)
    }

    /// The findings with their paths. If all paths together exceed [`PathBudget`], a finding only
    /// gets the last components, after `/...`.
    pub(crate) fn named(&self, damage: &[Damage]) -> Vec<Finding> {
        let paths = Paths::of(&self.inodes);
        let mut budget = PathBudget::default();
        let named = |damage: &Damage| {
            let path = damage.inode.and_then(|inode| paths.path_within(inode, &mut budget));
            path.iter().fold(damage.finding(), |finding, path| finding.in_file(path))
        };
        damage.iter().map(named).collect()
    }

    /// Counts the visible tree, and adds a finding for each entry that it cannot show.
    pub(crate) fn report(&self, survey: &Survey, mut findings: Vec<Finding>) -> Report {
        let told: BTreeSet<Vec<u8>> = findings.iter().flat_map(|finding| finding.paths.iter().cloned()).collect();
        let (mut files, mut directories) = (0, 1);
        // An error of the walk itself, which begins at the root, is among the findings.
        let _ = walk(self, self.root(), &mut |step| {
            match step {
                Step::Entry { attributes, .. } if attributes.kind == FileKind::Directory => directories += 1,
                Step::Entry { .. } => files += 1,
                Step::Problem { path, error } if !told.contains(path) => {
                    findings.push(Finding::new(DamageKind::NotShown, error.to_string()).in_file(path));
                }
                Step::Problem { .. } | Step::Leave { .. } => {}
            }
            Ok(Next::Enter)
        });
        let counts = vec![
            ("files", files),
            ("directories", directories),
            ("nodes", survey.nodes),
            ("inodes", survey.inodes),
            ("content_bytes", survey.bytes.content),
            ("blank_bytes", survey.bytes.blank),
            ("damaged_bytes", survey.bytes.damaged),
        ];
        Report { findings: bounded(findings), counts, notes: Vec::new() }
    }

    /// The path of an inode from the root, with a leading `/`; for several names, one of them.
    /// `None` if it has none. Cost: a pass over all names.
    pub fn path_of(&self, inode: Ino) -> Option<Vec<u8>> {
        Paths::of(&self.inodes).path(inode)
    }

    fn check_block(&self, block: BlockIndex, buffer: &mut Vec<u8>) -> Result<BlockReport> {
        let bad = self.catalogue.block(block).is_some_and(|block| block.queue == Queue::Bad);
        if bad || self.medium.is_bad(block) {
            return Ok(BlockReport::default());
        }
        block::check(self, block, buffer)
    }
}

/// Whether damage of this kind is in the node's own bytes.
pub(crate) const fn of_bytes(kind: DamageKind) -> bool {
    matches!(
        kind,
        DamageKind::Header
            | DamageKind::Node
            | DamageKind::Data
            | DamageKind::Name
            | DamageKind::Xattr
            | DamageKind::Summary
            | DamageKind::Cleanmarker
            | DamageKind::FreeSpace
            | DamageKind::Torn
    )
}

/// Limits the findings of each kind to the number that a report lists.
pub(crate) fn bounded(findings: Vec<Finding>) -> Vec<Finding> {
    let mut collector = Findings::default();
    collector.extend(findings);
    collector.into_list()
}

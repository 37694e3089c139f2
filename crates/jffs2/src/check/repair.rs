//! Repairing a volume: copying its intact nodes, block by block, to another device.

use std::collections::{BTreeMap, BTreeSet};

use nandkit_flash::{Flash, FlashError, PageProgram};
use nandkit_units::{BlockIndex, Cause, Context, FlashKind, Nanos};
use nandkit_vfs::check::{Finding, Repair};
use nandkit_vfs::{ErrorKind, FileKind, FsError, Result};

use super::plan::{Made, Name, RepairPlan, Whole};
use super::tree::Remedy;
use super::{bounded, of_bytes};
use crate::damage::{Damage, DamageKind};
use crate::layout::{ByteOrder, Compatibility, HEADER_SIZE, Header, ROOT, XATTR_SIZE, covered, crc, node_type, padded};
use crate::medium::Cleanmarker;
use crate::scan::full::is_unknown;
use crate::scan::node::{self, FoundName};
use crate::scan::walk::{Stretch, Walk};
use crate::volume::Jffs2;
use crate::{Ino, NodeAddress};

/// The offset of the inode's type in a directory entry (linux/jffs2.h).
const DIRENT_KIND: usize = 29;

impl<F: Flash> Jffs2<F> {
    /// Writes the volume without its provable damage to `output`, a device of the same kind, page
    /// size and blocks, whose old content is lost. `parallel` is as in [`crate::MountOptions`].
    ///
    /// Errors: `InvalidArgument` if the devices differ in shape, `Device`. Cost: a check, and two
    /// passes over the device.
    pub fn repair(&self, parallel: bool, output: &mut dyn Flash) -> Result<Repair> {
        let survey = self.survey(parallel)?;
        let plan = self.repair_plan(&survey.damage)?;
        let lost = self.repair_to(&plan, output)?;
        let findings = self.named(&survey.damage);
        let mut dropped: Vec<Finding> = plan.dropped.iter().map(Damage::finding).collect();
        dropped.extend(lost.iter().map(|at| {
            let detail = "the node is whole, but finds no place in its block of the repaired image";
            Finding::new(DamageKind::NoRoom, detail).at(at.0.into())
        }));
        let retyped: BTreeSet<u64> = plan.retyped.keys().map(|at| at.0.into()).collect();
        let is_mended = |finding: &&Finding| finding.offset.is_some_and(|at| retyped.contains(&at));
        let mut mended: Vec<Finding> = findings.iter().filter(is_mended).cloned().collect();
        mended.extend(plan.attached.iter().filter(|attached| !lost.contains(&attached.at)).map(|attached| {
            let detail = format!("inode {} is there now", attached.inode);
            let finding = Finding::new(DamageKind::Orphan, detail).of(attached.inode.into());
            finding.at(attached.at.0.into()).in_file(&attached.path)
        }));
        Ok(Repair {
            before: self.report(&survey, findings),
            kept: plan.kept.len() as u64,
            mended: bounded(mended),
            dropped: bounded(dropped),
            remaining: Vec::new(),
        })
    }

    /// Plans what to keep. The plan drops:
    ///
    /// * every damaged node;
    /// * every name of an inode of which nothing is left, with all older entries of that name, so
    ///   that none of them reappears;
    /// * every reference to a missing attribute;
    /// * impossible inodes;
    /// * names in files, and in directories of which nothing is left if those may have been
    ///   removed.
    ///
    /// Superseded nodes stay. Files that lost data keep the rest; a name with the wrong type gets
    /// the right one; intact inodes without a name get one in the directory `lost+found`.
    ///
    /// Errors: `Device`. Cost: one pass over the device.
    fn repair_plan(&self, damage: &[Damage]) -> Result<RepairPlan> {
        let mut bad: BTreeMap<NodeAddress, Damage> = damage
            .iter()
            .filter(|damage| of_bytes(damage.kind) && damage.kind != DamageKind::FreeSpace)
            .map(|damage| (damage.at, damage.clone()))
            .collect();
        let mut refused: BTreeSet<NodeAddress> = damage
            .iter()
            .filter(|damage| damage.kind == DamageKind::Reference)
            .map(|damage| damage.at)
            // Nodes that the mount did not drop are only unusual: a directory's second name.
            .filter(|at| self.catalogue.node(*at).is_none_or(|node| node.is_obsolete()))
            .collect();
        let mut plan = RepairPlan { dropped: bad.values().cloned().collect(), ..RepairPlan::default() };
        let mut typeless = self.apply_faults(&mut bad, &mut refused, &mut plan)?;
        let no_kind =
            self.strays.iter().filter(|stray| stray.mode.is_some_and(|mode| FileKind::of_mode(mode).is_none()));
        typeless.extend(no_kind.map(|stray| stray.inode));
        let mut whole = Whole { typeless, ..Whole::default() };
        for block in 0..self.catalogue.blocks.len() as u32 {
            self.whole_nodes(BlockIndex(block), &bad, &mut whole)?;
        }
        let no_type = |(at, inode): &(NodeAddress, Ino)| {
            self.dropped(*at, *inode, "a node that gives its inode no type that it can have")
        };
        plan.dropped.extend(whole.impossible.iter().map(no_type));
        self.drop_names(&mut whole, &refused, &mut plan);
        self.reattach(&whole, &mut plan)?;
        let attributes: BTreeSet<u32> = whole.attributes.iter().map(|(_, _, id)| *id).collect();
        whole.references.retain(|(at, _, inode, id)| {
            let keep = attributes.contains(id)
                || self.xattrs.references.get(&(*inode, *id)).is_some_and(|found| found.node != *at);
            if !keep {
                plan.dropped.push(self.dropped(*at, *inode, "a reference to an extended attribute that is not there"));
            }
            keep
        });
        plan.kept.extend(whole.inodes.iter().map(|(at, length, _)| (*at, *length)));
        plan.kept.extend(whole.names.iter().map(|(name, length)| (name.at, *length)));
        plan.kept.extend(whole.references.iter().map(|(at, length, _, _)| (*at, *length)));
        plan.kept.extend(whole.attributes.iter().map(|(at, length, _)| (*at, *length)));
        plan.kept.append(&mut whole.others);
        plan.kept.sort_unstable();
        let kept: BTreeSet<NodeAddress> = plan.kept.iter().map(|(at, _)| *at).collect();
        plan.dropped.retain(|damage| !kept.contains(&damage.at));
        plan.dropped.sort();
        Ok(plan)
    }

    /// Applies the faults of contradictory inodes and names; returns the inodes whose nodes without
    /// a valid type are dropped.
    fn apply_faults(
        &self,
        bad: &mut BTreeMap<NodeAddress, Damage>,
        refused: &mut BTreeSet<NodeAddress>,
        plan: &mut RepairPlan,
    ) -> Result<BTreeSet<Ino>> {
        let mut typeless = BTreeSet::new();
        for fault in self.tree_faults()? {
            let at = fault.damage.at;
            match fault.remedy {
                Remedy::DropTypeless(inode) => _ = typeless.insert(inode),
                Remedy::DropNode => {
                    plan.dropped.push(fault.damage.clone());
                    bad.insert(at, fault.damage);
                }
                Remedy::DropName => _ = refused.insert(at),
                Remedy::Retype(kind) => _ = plan.retyped.insert(at, kind),
            }
        }
        Ok(typeless)
    }

    fn dropped(&self, at: NodeAddress, inode: Ino, detail: &str) -> Damage {
        let block = self.medium.shape().block_of(at);
        Damage { at, block, kind: DamageKind::Reference, inode: Some(inode), detail: detail.into() }
    }

    /// Drops the names of inodes of which nothing is left, and everything in them.
    fn drop_names(&self, whole: &mut Whole, refused: &BTreeSet<NodeAddress>, plan: &mut RepairPlan) {
        let own: BTreeSet<Ino> = whole.inodes.iter().map(|(_, _, inode)| *inode).collect();
        let found: BTreeSet<Ino> = self.strays.iter().map(|stray| stray.inode).collect();
        let gone = gone(&whole.names, &own, &found, refused);
        whole.names.retain(|(name, _)| {
            let keep = !gone.contains(&(name.parent, name.name.clone()));
            if !keep {
                let shown = String::from_utf8_lossy(&name.name);
                let detail = format!(
                    "the name {shown:?} of inode {}, or an older one of that name: the inode or the directory is not there",
                    name.inode
                );
                plan.dropped.push(self.dropped(name.at, name.parent, &detail));
            }
            keep
        });
    }

    fn whole_nodes(&self, block: BlockIndex, bad: &BTreeMap<NodeAddress, Damage>, whole: &mut Whole) -> Result<()> {
        if self.medium.is_bad(block) {
            return Ok(());
        }
        let (order, shape) = (self.medium.order(), self.medium.shape());
        let bytes = self.bytes_at(shape.address(block, 0), shape.erase_size, Cause::Recovery)?;
        for stretch in Walk::new(order, shape.magic, &bytes) {
            let Stretch::Node { start, end, header } = stretch else { continue };
            let at = shape.address(block, start);
            let node = bytes.get(start as usize..end as usize).unwrap_or(&[]);
            // A node in a block that Linux takes for blank does not count.
            let known = self.catalogue.node(at).is_some();
            let is_blank = !known && self.catalogue.block(block).is_none_or(|block| block.nodes.len() < 2);
            if header.is_obsolete() || is_blank || bad.contains_key(&at) && !has_no_data(order, &header, node) {
                continue;
            }
            let length = header.total_length;
            match header.node_type {
                node_type::INODE => {
                    let Ok(found) = node::inode(order, node, length) else { continue };
                    let is_impossible = match found.inode {
                        ROOT => FileKind::of_mode(found.mode) != Some(FileKind::Directory),
                        inode => whole.typeless.contains(&inode) && FileKind::of_mode(found.mode).is_none(),
                    };
                    if is_impossible {
                        whole.impossible.push((at, found.inode));
                    } else {
                        whole.inodes.push((at, length, found.inode));
                    }
                }
                node_type::DIRENT => {
                    if let Ok((_, found)) = node::dirent(order, node, length) {
                        let FoundName { parent, version, inode, name, .. } = found;
                        let name = Name { at, parent, version, name, inode };
                        whole.names.push((name, length));
                    }
                }
                node_type::XATTR => {
                    if let Ok(found) = node::xattr(order, node, length) {
                        whole.attributes.push((at, length, found.id));
                    }
                }
                node_type::XREF => {
                    if let Ok(found) = node::xref(order, node, length) {
                        whole.references.push((at, length, found.inode, found.id));
                    }
                }
                unknown if is_unknown(unknown) && Compatibility::of(unknown) != Compatibility::Delete => {
                    whole.others.push((at, length));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Length of the cleanmarker at the beginning of a block, if there is one: it may be longer
    /// than its header (mkfs.jffs2, `--cleanmarker`).
    fn marker_length(&self, block: BlockIndex) -> Result<Option<u32>> {
        if self.medium.is_bad(block) {
            return Ok(None);
        }
        let (order, shape) = (self.medium.order(), self.medium.shape());
        let bytes = self.bytes_at(shape.address(block, 0), HEADER_SIZE, Cause::Recovery)?;
        let header = Header::decode(order, &bytes).filter(|header| header.check(order).is_ok());
        let length =
            header.filter(|header| header.node_type == node_type::CLEANMARKER).map(|header| header.total_length);
        Ok(length.filter(|length| (HEADER_SIZE..=shape.erase_size / 2).contains(length)))
    }

    /// Writes the kept nodes to another device of the same shape. Each block is erased and gets its
    /// nodes in sequence, and no summary; cleanmarkers have the length used in the volume, where it
    /// has them and they leave space for the nodes. New nodes follow where there is space. Blocks
    /// that are bad on the new device are skipped, which loses their nodes: their addresses are
    /// returned, and for new nodes without space those of the nodes that caused them.
    ///
    /// Errors: `InvalidArgument` if the devices differ in shape, `Device`.
    fn repair_to(&self, plan: &RepairPlan, output: &mut dyn Flash) -> Result<Vec<NodeAddress>> {
        let (ours, theirs) = (self.medium.flash().geometry(), *output.geometry());
        if (ours.kind, ours.page_size, ours.pages_per_block, ours.blocks)
            != (theirs.kind, theirs.page_size, theirs.pages_per_block, theirs.blocks)
        {
            return Err(FsError::new(
                ErrorKind::InvalidArgument,
                "the repaired volume needs a device of the same kind, page size and blocks",
            ));
        }
        let shape = *self.medium.shape();
        let mut lost = Vec::new();
        let mut made: Vec<&Made> = plan.made.iter().collect();
        let usual = self.usual_marker_length()?;
        for number in 0..shape.blocks {
            let block = BlockIndex(number);
            let from = plan.kept.partition_point(|(at, _)| at.block(shape.erase_size).0 < number);
            let to = plan.kept.partition_point(|(at, _)| at.block(shape.erase_size).0 <= number);
            let kept = plan.kept.get(from..to).unwrap_or(&[]);
            if output.is_bad(block) || self.medium.is_bad(block) {
                lost.extend(kept.iter().map(|(at, _)| *at));
                continue;
            }
            let mut bytes = Vec::with_capacity(shape.erase_size as usize);
            if shape.cleanmarker == Cleanmarker::Inline {
                let (order, length) = (self.medium.order(), self.marker_length(block)?.unwrap_or(usual));
                // Only an empty block needs a cleanmarker: a block that was filled without one has
                // no space for it.
                let nodes: u64 = kept.iter().map(|(_, length)| u64::from(padded(*length))).sum();
                if nodes + u64::from(padded(length)) <= u64::from(shape.erase_size) {
                    bytes.extend_from_slice(&Header::new(order, node_type::CLEANMARKER, length).encode(order));
                    bytes.resize(padded(length) as usize, 0xFF);
                }
            }
            self.refill(block, kept, plan, &mut bytes, &mut lost)?;
            made.retain(|node| {
                let fits = bytes.len() + node.bytes.len() <= shape.erase_size as usize;
                if fits {
                    bytes.extend_from_slice(&node.bytes);
                    bytes.resize(bytes.len().next_multiple_of(4), 0xFF);
                }
                !fits
            });
            write_block(output, block, &bytes, self.medium.oob_marker())
                .map_err(|error| FsError::device("the repaired image", error))?;
        }
        lost.extend(made.iter().map(|node| node.at));
        lost.dedup();
        Ok(lost)
    }

    /// Length of the first cleanmarker found in a block, if there are any.
    fn usual_marker_length(&self) -> Result<u32> {
        if self.medium.shape().cleanmarker == Cleanmarker::Inline {
            for number in 0..self.medium.shape().blocks {
                if let Some(length) = self.marker_length(BlockIndex(number))? {
                    return Ok(length);
                }
            }
        }
        Ok(HEADER_SIZE)
    }

    /// Appends a block's kept nodes to `bytes`, with corrections.
    fn refill(
        &self,
        block: BlockIndex,
        kept: &[(NodeAddress, u32)],
        plan: &RepairPlan,
        bytes: &mut Vec<u8>,
        lost: &mut Vec<NodeAddress>,
    ) -> Result<()> {
        if kept.is_empty() {
            return Ok(());
        }
        let (order, shape) = (self.medium.order(), self.medium.shape());
        let source = self.bytes_at(shape.address(block, 0), shape.erase_size, Cause::Recovery)?;
        for (at, length) in kept {
            let offset = at.offset(shape.erase_size) as usize;
            let node = source.get(offset..offset + *length as usize).unwrap_or(&[]);
            if bytes.len() + node.len() > shape.erase_size as usize {
                lost.push(*at);
                continue;
            }
            let from = bytes.len();
            bytes.extend_from_slice(node);
            if let Ok(found) = node::xattr(order, node, *length)
                && node.get(2..4) == Some(&order.bytes16(node_type::XATTR))
            {
                // The padding belongs to the node, but is covered by no checksum.
                let content =
                    XATTR_SIZE as usize + usize::from(found.name_length) + 1 + usize::from(found.value_length);
                bytes.get_mut(from + content..).unwrap_or(&mut []).fill(0xFF);
            }
            if let Some(kind) = plan.retyped.get(at) {
                retype(order, bytes.get_mut(from..).unwrap_or(&mut []), *kind);
            }
            let header = Header::decode(order, node);
            if header.is_some_and(|header| has_no_data(order, &header, node)) {
                bytes.get_mut(from + covered::INODE..from + covered::INODE + 4).unwrap_or(&mut []).fill(0);
            }
            bytes.resize(bytes.len().next_multiple_of(4), 0xFF);
        }
        Ok(())
    }
}

/// For each directory and name: version, address and inode of its newest entry.
type Newest<'a> = BTreeMap<(Ino, &'a [u8]), (u32, NodeAddress, Ino)>;

/// The names to drop: those refused; those in unreachable directories without nodes of their own;
/// and those of inodes that have neither nodes nor names in them, up the tree. `own`: inodes with
/// nodes of their own; `found`: inodes that get a new name. Cost: a few looks at each name, however
/// deep it is.
fn gone(
    names: &[(Name, u32)],
    own: &BTreeSet<Ino>,
    found: &BTreeSet<Ino>,
    refused: &BTreeSet<NodeAddress>,
) -> BTreeSet<(Ino, Box<[u8]>)> {
    let mut newest = Newest::new();
    for (name, _) in names {
        let known = newest.entry((name.parent, &name.name)).or_default();
        *known = (*known).max((name.version, name.at, name.inode));
    }
    let mut gone = BTreeSet::new();
    for (name, _) in names.iter().filter(|(name, _)| refused.contains(&name.at)) {
        leave_out(&mut newest, &mut gone, (name.parent, &name.name));
    }
    // Names dropped from here on hide nothing: their directory is unreachable, or their inode holds
    // no names.
    let reached = reached(&newest, found);
    let is_stray = |((parent, _), (_, _, inode)): (&(Ino, &[u8]), &(u32, NodeAddress, Ino))| {
        *inode != Ino::NONE && !own.contains(parent) && !reached.contains(parent)
    };
    let stray: Vec<(Ino, &[u8])> = newest.iter().filter(|found| is_stray(*found)).map(|(place, _)| *place).collect();
    stray.into_iter().for_each(|place| leave_out(&mut newest, &mut gone, place));
    // The number of names in each inode, and the names that lead to it.
    let mut held: BTreeMap<Ino, usize> = BTreeMap::new();
    let mut leading: BTreeMap<Ino, Vec<(Ino, &[u8])>> = BTreeMap::new();
    for (place, (_, _, inode)) in newest.iter() {
        *held.entry(place.0).or_default() += 1;
        leading.entry(*inode).or_default().push(*place);
    }
    let stands = |inode: Ino, held: &BTreeMap<Ino, usize>| {
        inode == Ino::NONE || own.contains(&inode) || held.get(&inode).is_some_and(|count| *count > 0)
    };
    let mut next: Vec<Ino> = leading.keys().copied().filter(|inode| !stands(*inode, &held)).collect();
    while let Some(inode) = next.pop() {
        for place in leading.remove(&inode).unwrap_or_default() {
            leave_out(&mut newest, &mut gone, place);
            let Some(count) = held.get_mut(&place.0) else { continue };
            *count = count.saturating_sub(1);
            if !stands(place.0, &held) {
                next.push(place.0);
            }
        }
    }
    gone
}

fn leave_out<'a>(newest: &mut Newest<'a>, gone: &mut BTreeSet<(Ino, Box<[u8]>)>, place: (Ino, &'a [u8])) {
    newest.remove(&place);
    gone.insert((place.0, Box::from(place.1)));
}

/// The inodes reachable by the newest names from the root, or from inodes that get a new name.
fn reached(newest: &Newest<'_>, found: &BTreeSet<Ino>) -> BTreeSet<Ino> {
    let mut reached: BTreeSet<Ino> = found.iter().copied().chain([ROOT]).collect();
    let mut next: Vec<Ino> = reached.iter().copied().collect();
    while let Some(parent) = next.pop() {
        let inside = newest.range((parent, &[][..])..).take_while(|((of, _), _)| *of == parent);
        next.extend(inside.map(|(_, (_, _, inode))| *inode).filter(|inode| reached.insert(*inode)));
    }
    reached
}

/// Changes the type in a directory entry, with its checksum.
fn retype(order: ByteOrder, node: &mut [u8], kind: u8) {
    if let Some(place) = node.get_mut(DIRENT_KIND) {
        *place = kind;
    }
    let sum = crc(node.get(..covered::DIRENT).unwrap_or(&[]));
    if let Some(place) = node.get_mut(covered::DIRENT..covered::DIRENT + 4) {
        place.copy_from_slice(&order.bytes32(sum));
    }
}

/// Whether it is an intact inode node without data: the checksum of its data, which Linux ignores,
/// can then only be corrected.
fn has_no_data(order: ByteOrder, header: &Header, node: &[u8]) -> bool {
    let found = (header.node_type == node_type::INODE).then(|| node::inode(order, node, header.total_length));
    matches!(found, Some(Ok(found)) if found.compressed_size == 0)
}

/// Erases a block and programs its new content.
fn write_block(
    output: &mut dyn Flash,
    block: BlockIndex,
    bytes: &[u8],
    oob: Vec<u8>,
) -> std::result::Result<(), FlashError> {
    let geometry = *output.geometry();
    let context = Context::at(Nanos::ZERO).for_cause(Cause::Recovery);
    output.erase(&context, block)?;
    let unit = if geometry.kind == FlashKind::Nor { geometry.write_unit } else { geometry.page_size };
    if !oob.is_empty() && bytes.is_empty() {
        let program = PageProgram { oob: &oob, ..PageProgram::bytes(0, &[]) };
        output.program(&context, block.page(0), program)?;
    }
    for (page, piece) in (0..).zip(bytes.chunks(geometry.page_size as usize)) {
        let mut piece = piece.to_vec();
        piece.resize(piece.len().next_multiple_of(unit.max(1) as usize), 0xFF);
        let oob = if page == 0 { &oob[..] } else { &[] };
        output.program(&context, block.page(page), PageProgram { oob, ..PageProgram::bytes(0, &piece) })?;
    }
    Ok(())
}

//! Blocks that are marked bad. Linux leaves them out whatever they hold. But in a dump a
//! controller's ECC is often at the place of the mark, so that intact nodes outweigh a mark. If the
//! options say which bytes are marks, marked blocks are left out as in Linux, and reported.
//!
//! A single cleared bit marks a block: Linux takes a block as good only if all eight bits are set
//! (`badblockbits` is 8 unless a driver says otherwise, drivers/mtd/nand/raw/nand_base.c,
//! `nand_block_bad`).

use std::collections::{BTreeMap, BTreeSet};

use nandkit_flash::{Flash, Look, PageRead};
use nandkit_flash_image::{BadMarker, DumpFlash};
use nandkit_jffs2::probe::{SeenNode, nodes_of};
use nandkit_jffs2::{Ino, Jffs2};
use nandkit_units::{BlockIndex, Context};
use nandkit_vfs::check::{Finding, Report};
use nandkit_vfs::{FileSystem, InodeNumber};

/// Largest number of affected inodes that are listed for all left-out blocks.
const INODES_TOLD: usize = 1000;

/// A block that is missing or has a mark.
pub(super) struct MarkedBlock {
    /// The finding about it: a loss if nodes are left out, otherwise harmless.
    finding: Finding,
    /// Its nodes, if it is left out.
    nodes: Vec<SeenNode>,
}

/// Decides about marked blocks; returns the dump without the left-out ones, and all marked blocks.
pub(super) fn weighed(device: DumpFlash) -> (DumpFlash, Vec<MarkedBlock>) {
    let marked: Vec<(u32, Vec<SeenNode>)> =
        device.info().bad_blocks.into_iter().map(|block| (block, nodes(&device, BlockIndex(block)))).collect();
    let nodes_outweigh = device.layout().marker == BadMarker::Auto;
    let is_good = |(block, nodes): &(u32, Vec<SeenNode>)| {
        nodes_outweigh && !nodes.is_empty() && !device.layout().missing.contains(block)
    };
    let good: Vec<u32> = marked.iter().filter(|marked| is_good(marked)).map(|(block, _)| *block).collect();
    let told = |(block, nodes): (u32, Vec<SeenNode>)| {
        let is_good = good.contains(&block);
        let finding = finding(&device, BlockIndex(block), nodes.len(), is_good);
        MarkedBlock { finding, nodes: if is_good { Vec::new() } else { nodes } }
    };
    let blocks = marked.into_iter().map(told).collect();
    (if good.is_empty() { device } else { device.with_good_blocks(&good) }, blocks)
}

/// The findings about the blocks themselves.
pub(super) fn findings(blocks: Vec<MarkedBlock>) -> Vec<Finding> {
    blocks.into_iter().map(|block| block.finding).collect()
}

/// The losses of a volume that was mounted without the blocks: a finding for each inode with a node
/// that exists nowhere else, and for each missing name. A block whose nodes all have copies
/// elsewhere is harmless: Linux moves nodes before it marks a block bad.
pub(super) fn losses<F: Flash>(blocks: Vec<MarkedBlock>, volume: &Jffs2<F>) -> Vec<Finding> {
    let mut told = BTreeSet::new();
    let mut findings = Vec::new();
    for MarkedBlock { finding, nodes } in blocks {
        if finding.is_harmless() {
            findings.push(finding);
            continue;
        }
        let lost = lost_of(&nodes, volume);
        if lost.is_empty() {
            let detail = format!("{}; all of them have copies elsewhere", finding.detail);
            findings.push(Finding { detail, ..finding }.harmless());
            continue;
        }
        let at = finding.offset.unwrap_or(0);
        let inodes = lost.iter().filter(|(inode, _)| told.len() < INODES_TOLD && told.insert(**inode));
        findings.extend(inodes.map(|(inode, path)| {
            let what = format!("inode {inode} has nodes in a block that is left out: {}", finding.detail);
            let lost = Finding::new(LEFT_OUT, what).of(InodeNumber(inode.0.into())).at(at);
            path.iter().fold(lost, |finding, path| finding.in_file(path))
        }));
    }
    findings
}

/// The inodes for which these nodes are the only ones of their version or name, with a path if
/// known.
fn lost_of<F: Flash>(nodes: &[SeenNode], volume: &Jffs2<F>) -> BTreeMap<Ino, Option<Vec<u8>>> {
    let mut versions: BTreeMap<Ino, BTreeSet<u32>> = BTreeMap::new();
    let mut lost = BTreeMap::new();
    let deleted = volume.deleted().unwrap_or_default();
    for node in nodes {
        match node {
            SeenNode::Inode(inode, version) => {
                let known = versions.entry(*inode).or_insert_with(|| {
                    let versions = volume.versions(*inode).unwrap_or_default();
                    versions.into_iter().map(|version| version.version).collect()
                });
                if !known.contains(version) {
                    lost.entry(*inode).or_insert_with(|| volume.path_of(*inode));
                }
            }
            SeenNode::Name(parent, name, inode) if inode.0 != 0 => {
                let is_there = volume.lookup(InodeNumber(parent.0.into()), name).is_ok();
                let was_deleted = || deleted.iter().any(|found| (found.parent, &found.name) == (*parent, name));
                if !is_there && !was_deleted() {
                    let above = volume.path_of(*parent).unwrap_or_else(|| format!("<inode {parent}>").into_bytes());
                    let above = if above == b"/" { Vec::new() } else { above };
                    lost.insert(*inode, Some([&above[..], b"/", name].concat()));
                }
            }
            SeenNode::Name(..) | SeenNode::Other => {}
        }
    }
    lost
}

/// The kind of findings about blocks that are left out.
const LEFT_OUT: &str = "bad block";

/// Notes for commands other than `check`: a sentence for each left-out block with nodes.
pub(super) fn notes(blocks: &[MarkedBlock]) -> Vec<String> {
    let findings = blocks.iter().map(|block| &block.finding);
    findings.filter(|finding| !finding.is_harmless()).map(|finding| finding.detail.clone()).collect()
}

/// The report with these findings in front.
pub(super) fn reported(mut report: Report, count: usize, mut bad: Vec<Finding>) -> Report {
    report.counts.push(("bad_blocks", count as u64));
    bad.extend(report.findings);
    Report { findings: bad, ..report }
}

/// The intact nodes of a block.
fn nodes(device: &DumpFlash, block: BlockIndex) -> Vec<SeenNode> {
    let size = device.geometry().block_size();
    let mut bytes = vec![0xFF; usize::try_from(size).unwrap_or(0)];
    device.look_at(u64::from(block.0) * size, &mut bytes);
    nodes_of(&bytes)
}

fn finding(device: &DumpFlash, block: BlockIndex, nodes: usize, good: bool) -> Finding {
    let start = u64::from(block.0) * device.geometry().block_size();
    if device.layout().missing.contains(&block.0) {
        return Finding::new(LEFT_OUT, format!("block {} is not in the dump", block.0)).at(start).harmless();
    }
    let mark = mark(device, block);
    let many = if nodes == 1 { "1 intact node".to_owned() } else { format!("{nodes} intact nodes") };
    let detail = match (nodes, good) {
        (0, _) => format!("block {} is marked bad{mark}, and is left out", block.0),
        (_, true) => format!(
            "block {} seems to be marked bad{mark}, but holds {many}: it is read, since intact nodes outweigh a mark",
            block.0
        ),
        _ => format!("block {} is marked bad{mark} and holds {many}: left out, as Linux does", block.0),
    };
    let finding = Finding::new(LEFT_OUT, detail).at(start);
    if nodes == 0 || good { finding.harmless() } else { finding }
}

/// The value of the mark in words, if it is known.
fn mark(device: &DumpFlash, block: BlockIndex) -> String {
    let place = device.layout().marker_byte();
    for page in 0..2 {
        let mut oob = vec![0xFF; device.geometry().oob_size as usize];
        let read = device.read(&Context::default(), block.page(page), PageRead::oob(&mut oob));
        if let (Ok(_), Some(byte)) = (read, oob.get(place as usize).filter(|byte| **byte != 0xFF)) {
            return format!(" (OOB byte {place} of page {page} is {byte:#04x})");
        }
    }
    String::new()
}

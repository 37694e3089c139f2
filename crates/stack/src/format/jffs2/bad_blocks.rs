//! Blocks that are marked bad. Linux leaves them out whatever they hold; but in a dump a
//! controller's ECC often stands where the mark would, so that whole nodes outweigh it. Where the
//! options say which bytes are marks, blocks are left out as Linux does, but not in silence.
//!
//! One bit of the mark is enough: Linux takes a block for good only where all eight are set
//! (`badblockbits` is 8 unless a driver says otherwise, drivers/mtd/nand/raw/nand_base.c,
//! `nand_block_bad`).

use nandkit_flash::{Flash, Look, PageRead};
use nandkit_flash_image::{BadMarker, DumpFlash};
use nandkit_jffs2::probe::count_nodes;
use nandkit_units::{BlockIndex, Context};

use nandkit_vfs::check::{Finding, Report};

/// A dump whose blocks are bad that are left out, and what is to be said of those with a mark: as
/// loss where nodes are left out, else as harmless.
pub(super) fn weighed(device: DumpFlash) -> (DumpFlash, Vec<Finding>) {
    let marked: Vec<(u32, u64)> =
        device.info().bad_blocks.into_iter().map(|block| (block, nodes(&device, BlockIndex(block)))).collect();
    let nodes_outweigh = device.layout().marker == BadMarker::Auto;
    let is_good =
        |(block, nodes): &(u32, u64)| nodes_outweigh && *nodes > 0 && !device.layout().missing.contains(block);
    let good: Vec<u32> = marked.iter().filter(|marked| is_good(marked)).map(|(block, _)| *block).collect();
    let findings =
        marked.iter().map(|(block, nodes)| finding(&device, BlockIndex(*block), *nodes, good.contains(block)));
    let findings = findings.collect();
    (if good.is_empty() { device } else { device.with_good_blocks(&good) }, findings)
}

/// What is to be said of them where nobody asked for a check: a sentence for each block that is
/// left out with nodes.
pub(super) fn notes(findings: &[Finding]) -> Vec<String> {
    findings.iter().filter(|finding| !finding.is_harmless()).map(|finding| finding.detail.clone()).collect()
}

/// A report with them before all else.
pub(super) fn reported(mut report: Report, mut bad: Vec<Finding>) -> Report {
    report.counts.push(("bad_blocks", bad.len() as u64));
    bad.extend(report.findings);
    Report { findings: bad, ..report }
}

/// Whole nodes of a block.
fn nodes(device: &DumpFlash, block: BlockIndex) -> u64 {
    let size = device.geometry().block_size();
    let mut bytes = vec![0xFF; usize::try_from(size).unwrap_or(0)];
    device.look_at(u64::from(block.0) * size, &mut bytes);
    count_nodes(&bytes)
}

fn finding(device: &DumpFlash, block: BlockIndex, nodes: u64, good: bool) -> Finding {
    let start = u64::from(block.0) * device.geometry().block_size();
    let mark = mark(device, block);
    let many = if nodes == 1 { "1 whole node".to_owned() } else { format!("{nodes} whole nodes") };
    let detail = match (nodes, good) {
        (0, _) => format!("block {} is marked bad{mark}, and is left out", block.0),
        (_, true) => format!(
            "block {} seems to be marked bad{mark}, but holds {many}: it is read, since whole nodes outweigh a mark",
            block.0
        ),
        _ => format!("block {} is marked bad{mark} and holds {many}: left out, as Linux does", block.0),
    };
    let finding = Finding::new("bad block", detail).at(start);
    if nodes == 0 || good { finding.harmless() } else { finding }
}

/// The mark that is not 0xFF, where one says so.
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

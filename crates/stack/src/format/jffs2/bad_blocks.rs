//! Blocks that are marked bad: Linux leaves them out whatever they hold, and so do we, but not in silence.
//!
//! One bit of the mark is enough: Linux takes a block for good only where all eight are set (`badblockbits` is 8 unless a driver says otherwise,
//! drivers/mtd/nand/raw/nand_base.c, `nand_block_bad`).

use nandkit_flash::{Flash, Look, PageRead};
use nandkit_flash_image::DumpFlash;
use nandkit_jffs2::probe::count_nodes;
use nandkit_units::{BlockIndex, Context};

use nandkit_vfs::check::{Finding, Report};

/// What an open image says of its bad blocks: the ones that hold nodes first told as loss, the others as harmless.
pub(super) fn findings(device: &DumpFlash) -> Vec<Finding> {
    device.info().bad_blocks.into_iter().map(|block| finding(device, BlockIndex(block))).collect()
}

/// The same as a sentence each, for the blocks that hold nodes.
pub(super) fn notes(findings: &[Finding]) -> Vec<String> {
    findings.iter().filter(|finding| !finding.is_harmless()).map(|finding| finding.detail.clone()).collect()
}

/// A report with them before all else.
pub(super) fn reported(mut report: Report, mut bad: Vec<Finding>) -> Report {
    report.counts.push(("bad_blocks", bad.len() as u64));
    bad.extend(report.findings);
    Report { findings: bad, ..report }
}

fn finding(device: &DumpFlash, block: BlockIndex) -> Finding {
    let size = device.geometry().block_size();
    let start = u64::from(block.0) * size;
    let mut bytes = vec![0xFF; usize::try_from(size).unwrap_or(0)];
    device.look_at(start, &mut bytes);
    let nodes = count_nodes(&bytes);
    let mark = mark(device, block);
    let detail = match nodes {
        0 => format!("block {} is marked bad{mark}, and is left out", block.0),
        1 => format!("block {} is marked bad{mark} and holds 1 whole node, which is left out, as Linux does", block.0),
        _ => format!(
            "block {} is marked bad{mark} and holds {nodes} whole nodes, which are left out, as Linux does",
            block.0
        ),
    };
    let finding = Finding::new("bad block", detail).at(start);
    if nodes == 0 { finding.harmless() } else { finding }
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

//! Detects fsynced data after the checkpoint (f2fs-writing.md, "Roll-forward"), so that a reader is
//! told and may ask for it ([`crate::recover::recovered_several`]).

use nandkit_units::Cause;
use nandkit_vfs::ErrorKind;

use super::Pack;
use crate::blocks::Blocks;
use crate::checkpoint_state::CheckpointState;
use crate::findings::{Defect, Defects, FindingKind};
use crate::ids::Log;
use crate::layout::Footer;
use crate::layout::checkpoint::flag;
use crate::layout::node::mark;

/// Follows the chain from the warm node log to the first node with an fsync mark, and reports it.
pub fn look(blocks: &(impl Blocks + ?Sized), pack: &Pack, state: &CheckpointState, findings: Defects<'_>) {
    if state.head.has(flag::DISABLED) {
        return;
    }
    let geometry = blocks.geometry();
    let Some(log) = state.logs.get(Log::WarmNode.index()) else { return };
    let mut at = geometry.segment_start(log.segment).checked_add(u32::from(log.next));
    let mut block = vec![0; geometry.block_size()];
    // A chain that returns to a block is a cycle; Brent's algorithm finds it at the latest when the
    // distance between the two reaches the cycle's length.
    let (mut met, mut steps, mut until) = (None, 0_u64, 1_u64);
    loop {
        if at == met {
            return;
        }
        steps += 1;
        if steps == until {
            (met, until) = (at, until * 2);
        }
        let Some(here) = at.filter(|&at| geometry.main(at).is_some()) else { return };
        match blocks.read(Cause::Recovery, here, &mut block) {
            // The volume was cut short, which is already reported.
            Err(error) if error.kind == ErrorKind::Corrupt => return,
            Err(error) => {
                let detail = format!("cannot tell whether data was fsynced after the last checkpoint: {error}");
                findings(Defect::new(FindingKind::Note, detail).at(here));
                return;
            }
            Ok(()) => {}
        }
        let Some(footer) = Footer::of_block(&block) else { return };
        if !belongs(pack, &footer) {
            return;
        }
        if footer.has(mark::FSYNC) {
            let detail = "data that were fsynced after the last checkpoint are not shown";
            findings(Defect::new(FindingKind::NotReplayed, detail).of(footer.ino()).at(here));
            return;
        }
        if footer.next() == here {
            return;
        }
        at = Some(footer.next());
    }
}

/// Whether a node was written after this checkpoint and before the next (node.h,
/// `is_recoverable_dnode`).
fn belongs(pack: &Pack, footer: &Footer) -> bool {
    let version = pack.head.version.get();
    let written = footer.checkpoint.get();
    if pack.head.has(flag::NO_CRC_RECOVERY) {
        return version as u32 == written as u32;
    }
    let crc = if pack.head.has(flag::CRC_RECOVERY) { u64::from(pack.checksum) << 32 } else { 0 };
    version | crc == written
}

//! Opens a volume on a device: superblock, checkpoint, and findings about both.

mod checkpoint;
pub(crate) mod roll_forward;
mod summaries;
mod superblock;

pub(crate) use checkpoint::whole_block;
pub use checkpoint::{decode_state, read_pack};
pub(crate) use superblock::choose as choose_superblock;

use nandkit_block::BlockDevice;
use nandkit_units::Clock;
use nandkit_vfs::Result;

use crate::checkpoint_state::CheckpointState;
use crate::device::{DeviceBlocks, Devices};
use crate::findings::{Defect, Defects, FindingKind};
use crate::ids::BlockAddress;
use crate::layout::{CheckpointHead, Superblock};

/// A pack whose first and last blocks are valid and of one version.
#[derive(Clone, Debug)]
pub struct Pack {
    /// Its first block.
    pub start: BlockAddress,
    /// The head of its first block.
    pub head: CheckpointHead,
    /// The checksum of its first block.
    pub checksum: u32,
    /// Its first block, and the payload blocks.
    pub bytes: Vec<u8>,
}

/// Identifies one of two copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum WhichCopy {
    First,
    Second,
}

/// An opened volume.
#[derive(Debug)]
pub(crate) struct Opened<D> {
    pub blocks: DeviceBlocks<D>,
    pub superblock: Superblock,
    pub superblock_copy: WhichCopy,
    pub state: CheckpointState,
    pub pack: WhichCopy,
    /// The checksum of the checkpoint block, which node footers contain.
    #[allow(dead_code, reason = "who writes asks for it")]
    pub checksum: u32,
}

/// Opens a volume for reading. Errors: `Corrupt` (not F2FS, or no valid superblock or checkpoint;
/// with the first reason), `NotSupported`, `InvalidArgument`, `Device`. Other defects go to
/// `findings`.
pub(crate) fn open<D: BlockDevice>(devices: Vec<D>, clock: Clock, findings: Defects<'_>) -> Result<Opened<D>> {
    let mut devices = Devices::new(devices, clock)?;
    let (superblock, geometry, superblock_copy) = superblock::choose(&devices, findings)?;
    devices.arrange(&geometry, findings)?;
    let blocks = DeviceBlocks { devices, geometry };
    let (pack, copy) = checkpoint::choose(&blocks, findings)?;
    let mut told = Vec::new();
    let state = decode_state(&blocks, &pack, &mut |finding| told.push(finding))?;
    let Some(state) = state else {
        // The last finding is why decoding stopped.
        let why =
            told.pop().unwrap_or_else(|| Defect::new(FindingKind::Checkpoint, "the checkpoint cannot be decoded"));
        return Err(why.into_error());
    };
    told.into_iter().for_each(&mut *findings);
    roll_forward::look(&blocks, &pack, &state, findings);
    note_state(&state, findings);
    Ok(Opened { blocks, superblock, superblock_copy, state, pack: copy, checksum: pack.checksum })
}

/// Reports what a reader should know of the volume's state.
fn note_state(state: &CheckpointState, findings: Defects<'_>) {
    use crate::layout::checkpoint::flag;
    let mut note = |text: &str| findings(Defect::new(FindingKind::Note, text));
    for (bit, text) in [
        (flag::ERROR, "an error stopped the volume's checkpoints: the last changes may be missing"),
        (flag::FSCK, "the volume is marked as needing fsck"),
        (flag::QUOTA_NEEDS_FSCK, "the quota files are marked as needing fsck"),
        (flag::DISABLED, "checkpoints were disabled: later changes are not shown"),
        (flag::RESIZING, "a resize was in progress"),
    ] {
        if state.head.has(bit) {
            note(text);
        }
    }
}

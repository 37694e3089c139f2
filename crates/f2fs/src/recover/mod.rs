//! Recovery after an unclean unmount: frees inodes without a name and recovers what was fsynced
//! since the last checkpoint (f2fs-writing.md, "Roll-forward"; recovery.c).
//!
//! Recovery works in memory and allocates nothing. Then it protects every block of the chain, and
//! every block that the chain names, from being overwritten, moves the warm node log away from the
//! chain's segment, and makes the result durable with a checkpoint. A power cut before that leaves
//! checkpoint and chain intact. (Linux overwrites its chain.)

mod chain;
mod inodes;
mod names;
mod reading;
mod replay;

use nandkit_block::BlockDevice;
use nandkit_vfs::{ErrorKind, Result};

use crate::blocks::Nodes;
use crate::counters::Reason;
use crate::findings::{Defect, FindingKind};
use crate::ids::{Log, NodeId};
use crate::write::WritableVolume;
use chain::Chain;

pub use crate::counters::Recovered;
pub use reading::{ForReading, recovered, recovered_several};

impl<D: BlockDevice> WritableVolume<D> {
    /// Recovers what there is, and writes a checkpoint if there was anything. Errors: `Corrupt` (an
    /// inconsistent chain), `NoSpace`, `Device`; then the device is unchanged.
    pub(crate) fn recover(&mut self) -> Result<Recovered> {
        self.writer.recovering = true;
        let done = self.recover_in_memory();
        self.writer.recovering = false;
        let (recovered, chain) = done?;
        if recovered == Recovered::default() && self.state.orphans.is_empty() {
            return Ok(recovered);
        }
        self.keep_from_writing(&chain)?;
        self.checkpoint(Reason::Forced)?;
        Ok(recovered)
    }

    fn recover_in_memory(&mut self) -> Result<(Recovered, Chain)> {
        let chain = Chain::find(self)?;
        let orphans = self.free_old_orphans()?;
        let created = self.replay(&chain)?;
        let (files, nodes) = (chain.owners.len() as u64, chain.nodes.len() as u64);
        let nodes = if files > 0 { nodes } else { 0 };
        Ok((Recovered { orphans, files, created, nodes }, chain))
    }

    /// Frees inodes that were open without a name at the last checkpoint (checkpoint.c,
    /// `f2fs_recover_orphan_inodes`).
    fn free_old_orphans(&mut self) -> Result<u64> {
        let mut orphans = self.state.orphans.clone();
        orphans.sort_unstable();
        orphans.dedup();
        let mut freed = 0;
        for ino in orphans {
            if ino <= NodeId::ROOT || self.entry(ino)?.is_free() {
                let detail = "the checkpoint lists this inode as open without a name, but it does not exist";
                self.notes.push(Defect::new(FindingKind::State, detail).of(ino));
                continue;
            }
            let links = self.inode_at(ino)?.head.links.get();
            if links != 0 {
                let detail = format!(
                    "the checkpoint lists this inode as open without a name, but it has {links} names: it stays"
                );
                self.notes.push(Defect::new(FindingKind::State, detail).of(ino));
                continue;
            }
            self.free_inode(ino)?;
            freed += 1;
        }
        Ok(freed)
    }

    /// Protects the chain and all blocks that it names, since a power cut from here on must find
    /// them intact. Without a chain, blocks of an older one may follow the log, and the
    /// checkpoint's own nodes must not lead into them.
    fn keep_from_writing(&mut self, chain: &Chain) -> Result<()> {
        self.writer.segments.pin(&chain.named);
        self.writer.segments.pin(&chain.nodes.iter().map(|node| node.at).collect::<Vec<_>>());
        // If no segment is free, the log continues after the chain.
        match self.writer.segments.move_log(Log::WarmNode) {
            Err(error) if error.kind != ErrorKind::NoSpace || !self.writer.segments.options.crc_recovery => Err(error),
            _ => Ok(()),
        }
    }
}

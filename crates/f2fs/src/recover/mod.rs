//! What a mount does behind an unclean end: inodes without a name are freed, and what was fsynced
//! since the last checkpoint is taken over (f2fs-writing.md, "Roll-forward"; recovery.c).
//!
//! All of it happens in memory, and nothing is allocated meanwhile. Then every block of the chain,
//! and every block that it names, is kept from being written, the log of warm nodes leaves the
//! segment where the chain lies, and a checkpoint makes the result durable at once: a cut before
//! its end leaves checkpoint and chain as they were. (Linux writes over its chain.)

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
    /// Recovers what there is to recover, and writes a checkpoint if there was anything. Errors:
    /// `Corrupt` (a chain that contradicts itself), `NoSpace`, `Device`; the device is as before
    /// then.
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

    /// Inodes that were open without a name when the last checkpoint was written (checkpoint.c,
    /// `f2fs_recover_orphan_inodes`).
    fn free_old_orphans(&mut self) -> Result<u64> {
        let mut orphans = self.state.orphans.clone();
        orphans.sort_unstable();
        orphans.dedup();
        let mut freed = 0;
        for ino in orphans {
            if ino <= NodeId::ROOT || self.entry(ino)?.is_free() {
                let detail = "the checkpoint says that this inode was open without a name; there is none";
                self.notes.push(Defect::new(FindingKind::State, detail).of(ino));
                continue;
            }
            let links = self.inode_at(ino)?.head.links.get();
            if links != 0 {
                let detail = format!("an inode with {links} names that the checkpoint says has none: it stays");
                self.notes.push(Defect::new(FindingKind::State, detail).of(ino));
                continue;
            }
            self.free_inode(ino)?;
            freed += 1;
        }
        Ok(freed)
    }

    /// A cut from here on must find the chain whole, and all that it names. Where there is none,
    /// later blocks of one may stand behind the log, which the checkpoint's own nodes must not lead
    /// into.
    fn keep_from_writing(&mut self, chain: &Chain) -> Result<()> {
        self.writer.segments.pin(&chain.named);
        self.writer.segments.pin(&chain.nodes.iter().map(|node| node.at).collect::<Vec<_>>());
        // Where no segment is free the log goes on behind the chain.
        match self.writer.segments.move_log(Log::WarmNode) {
            Err(error) if error.kind != ErrorKind::NoSpace || !self.writer.segments.options.crc_recovery => Err(error),
            _ => Ok(()),
        }
    }
}

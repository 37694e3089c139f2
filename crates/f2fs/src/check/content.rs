//! Checks content with a format: symlink targets and compressed clusters.

use nandkit_codec::compression::Decompressor;
use nandkit_units::Cause;
use nandkit_vfs::{FileKind, Result};

use super::Check;
use super::batch;
use super::file::FileWalk;
use super::inodes::state;
use super::report::of;
use crate::compressed;
use crate::findings::FindingKind;
use crate::ids::BlockAddress;
use crate::inode::Inode;

impl Check<'_> {
    /// Checks a symlink's target: 1 byte to one block, without NUL.
    pub fn check_link(&mut self, file: &FileWalk) {
        let (inode, size) = (&file.inode, file.inode.head.size.get());
        let most = self.geometry.block_size() as u64;
        let target = match self.target_of(file) {
            Ok(target) => target,
            Err(error) => {
                self.report.fault(FindingKind::Unreadable, of(inode.nid), || error.to_string());
                return;
            }
        };
        let detail = match &target {
            _ if size == 0 || size > most => format!("a symlink target of {size} bytes; expected 1 to {most}"),
            _ if inode.is_encrypted() => return,
            None => "a symlink without a target".into(),
            Some(bytes) if bytes.get(..size as usize).is_some_and(|target| !target.contains(&0)) => return,
            Some(_) => format!("a symlink target of {size} bytes that is incomplete or contains NUL"),
        };
        self.report.fault(FindingKind::Inode, of(inode.nid).at(file.expected.at), || detail);
        match self.length_of(inode, target.as_deref()) {
            0 => self.mend_nameless(inode.nid),
            length => self.mend_head(file.expected.at, |head| head.size = length.into()),
        }
    }

    /// Whether a lost symlink has no target; a repair drops it.
    pub fn is_lost_without_target(&self, file: &FileWalk) -> bool {
        let inode = &file.inode;
        let is_lost = self.mender.is_some() && self.inodes.get(inode.nid).has(state::LOST);
        is_lost
            && inode.kind == FileKind::Symlink
            && self.target_of(file).is_ok_and(|target| self.length_of(inode, target.as_deref()) == 0)
    }

    /// All bytes that hold a symlink's target; none if it has no place for one. Errors: the
    /// device's.
    fn target_of(&self, file: &FileWalk) -> Result<Option<Vec<u8>>> {
        let inode = &file.inode;
        if inode.inline_data().is_some() {
            return Ok(inode.block.get(inode.shape.inline.clone()).map(<[u8]>::to_vec));
        }
        let page = file.pages.iter().find(|(page, _)| *page == 0);
        page.map(|(_, here)| batch::one(self.blocks, Cause::Metadata, *here).map(|block| block.to_vec())).transpose()
    }

    /// The length of a target, up to the first NUL. If the target is encrypted, only the inode's
    /// size is known.
    fn length_of(&self, inode: &Inode, target: Option<&[u8]>) -> u64 {
        if inode.is_encrypted() {
            let size = inode.head.size.get();
            return if size > self.geometry.block_size() as u64 { 0 } else { size };
        }
        let target = target.unwrap_or_default();
        target.iter().position(|&byte| byte == 0).unwrap_or(target.len()) as u64
    }

    /// Checks that a compressed cluster can be decompressed and matches its checksum. No other file
    /// content can be verified.
    pub fn check_cluster(&mut self, inode: &Inode, cluster: u64, blocks: &[BlockAddress]) {
        let place = blocks.first().map_or(of(inode.nid), |first| of(inode.nid).at(*first));
        let packed = match compressed::join(self.blocks, blocks) {
            Ok(packed) => packed,
            Err(error) => {
                self.report.fault(FindingKind::Unreadable, place, || format!("compressed cluster {cluster}: {error}"));
                return;
            }
        };
        let mut content = vec![0; usize::from(inode.cluster) * self.geometry.block_size()];
        let decompressor = self.decompressor.get_or_insert_with(Decompressor::new);
        if let Err(finding) = compressed::decompress(decompressor, inode, cluster, &packed, &mut content) {
            self.report.fault(finding.kind, place, || finding.detail);
        } else if let Some((have, want)) = compressed::wrong_checksum(inode, &packed) {
            self.report.fault(FindingKind::Compression, place, || {
                format!("compressed cluster {cluster}: its checksum is {have:#010x}; its bytes give {want:#010x}")
            });
        }
    }
}

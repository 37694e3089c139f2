//! Content that has a form: targets of links, compressed clusters.

use nandkit_codec::compression::Decompressor;
use nandkit_units::Cause;

use super::Check;
use super::batch;
use super::file::FileWalk;
use super::report::of;
use crate::compressed;
use crate::findings::FindingKind;
use crate::ids::BlockAddress;
use crate::inode::Inode;

impl Check<'_> {
    /// A link's target: 1 byte to a block, without NUL.
    pub fn check_link(&mut self, file: &FileWalk) {
        let (inode, size) = (&file.inode, file.inode.head.size.get());
        let place = of(inode.nid).at(file.expected.at);
        let most = self.geometry.block_size() as u64;
        if size == 0 || size > most {
            self.report
                .fault(FindingKind::Inode, place, || format!("a link's target of {size} bytes; expected 1 to {most}"));
            return;
        }
        if inode.is_encrypted() {
            return;
        }
        let block = match (inode.inline_data(), file.pages.iter().find(|(page, _)| *page == 0)) {
            (Some(data), _) => {
                let (whole, data) = (data.len() as u64 == size, data.to_vec());
                if !whole || data.contains(&0) {
                    self.report.fault(FindingKind::Inode, place, || {
                        format!("a link's target of {size} bytes that is not whole, or has NUL in it")
                    });
                    self.mend_link(file, &data);
                }
                return;
            }
            (None, Some((_, here))) => batch::one(self.blocks, Cause::Metadata, *here),
            (None, None) => {
                self.report.fault(FindingKind::Inode, place, || "a link without a target".into());
                return;
            }
        };
        match block {
            Ok(block) if block.get(..size as usize).is_some_and(|target| target.contains(&0)) => {
                self.mend_link(file, &block);
                self.report
                    .fault(FindingKind::Inode, place, || format!("a link's target of {size} bytes with NUL in it"));
            }
            Ok(_) => {}
            Err(error) => self.report.fault(FindingKind::Unreadable, of(inode.nid), || error.to_string()),
        }
    }

    /// A target ends at its first NUL; a link without one has no name any more.
    fn mend_link(&mut self, file: &FileWalk, target: &[u8]) {
        match target.iter().position(|&byte| byte == 0).unwrap_or(target.len()) {
            0 => self.mend_nameless(file.inode.nid),
            length => self.mend_head(file.expected.at, |head| head.size = (length as u64).into()),
        }
    }

    /// A compressed cluster can be decompressed, and has the checksum that it says. Nothing else in a volume witnesses content.
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

//! Checks a file's addresses: who owns the blocks, and whether the inode's totals match.

use nandkit_vfs::FileKind;

use super::Check;
use super::inodes::state;
use super::quota::QuotaPages;
use super::report::of;
use super::summaries::Claim;
use super::walk::Expected;
use crate::encode::put;
use crate::findings::FindingKind;
use crate::ids::{BlockAddress, DataAddress};
use crate::inode::Inode;
use crate::layout::inode::{advise, inline};
use crate::layout::{Features, word};

/// The most pages per cluster.
const CLUSTER_MAX: usize = 256;
/// The offset of `i_compr_blocks`, the blocks saved by compression, in an inode.
const COMPRESSED_BLOCKS: usize = 384;

/// An inode and what was found below it.
#[derive(Debug)]
pub(super) struct FileWalk {
    pub inode: Inode,
    pub expected: Expected,
    /// Whether its address words hold addresses.
    pub has_addresses: bool,
    /// Where the addresses start in the node being checked.
    words_start: usize,
    /// Blocks as `i_blocks` counts them.
    pub blocks: u64,
    /// Blocks saved by compression.
    saved: u64,
    /// Pages of its largest extent that are where the extent says.
    extent_pages: u64,
    /// Blocks past the end of the devices.
    behind_end: u64,
    /// The page after the last one with an address.
    pub end_page: u64,
    /// Whether all nodes below it could be read.
    pub whole: bool,
    /// Whether the superblock names it as a quota file.
    pub is_quota: bool,
    /// Blocks of a directory, symlink or quota file that belong to no one else: page and address.
    pub pages: Vec<(u32, BlockAddress)>,
}

impl FileWalk {
    pub const fn new(inode: Inode, expected: Expected, has_addresses: bool) -> Self {
        Self {
            inode,
            expected,
            has_addresses,
            words_start: 0,
            blocks: 1,
            saved: 0,
            extent_pages: 0,
            behind_end: 0,
            end_page: 0,
            whole: true,
            is_quota: false,
            pages: Vec::new(),
        }
    }

    pub fn is_directory(&self) -> bool {
        self.inode.kind == FileKind::Directory
    }

    /// Notes that a page is at an address.
    fn meet_page(&mut self, page: u64, address: DataAddress) {
        self.end_page = self.end_page.max(page + 1);
        let extent = &self.inode.head.extent;
        let (first, length) = (u64::from(extent.page.get()), u64::from(extent.length.get()));
        if let Some(within) = page.checked_sub(first).filter(|within| *within < length) {
            let expected = u64::from(extent.address.get()) + within;
            self.extent_pages += u64::from(matches!(address, DataAddress::At(here) if u64::from(here.0) == expected));
        }
    }
}

impl Check<'_> {
    /// Checks the addresses of one node, starting at byte `start` of its block and page `page` of
    /// the file.
    pub fn addresses(
        &mut self,
        file: &mut FileWalk,
        node: &Expected,
        block: &[u8],
        start: usize,
        count: u16,
        page: u64,
    ) {
        file.words_start = start;
        let cluster = file.inode.cluster;
        let address = |index: u16| DataAddress::of(word(block, start + usize::from(index) * 4).unwrap_or(0));
        if cluster == 1 {
            for index in 0..count {
                let address = address(index);
                if address != DataAddress::Hole {
                    self.address(file, node, index, page + u64::from(index), address);
                }
            }
            return;
        }
        for first in (0..count).step_by(cluster.into()) {
            let mut addresses = [DataAddress::Hole; CLUSTER_MAX];
            let addresses = addresses.get_mut(..usize::from(cluster)).unwrap_or_default();
            for (index, place) in (first..count).zip(&mut *addresses) {
                *place = address(index);
            }
            if addresses.first() == Some(&DataAddress::Compressed) {
                self.cluster(file, node, first, page + u64::from(first), addresses);
                continue;
            }
            for (index, address) in (first..).zip(&*addresses) {
                if *address != DataAddress::Hole {
                    self.address(file, node, index, page + u64::from(index), *address);
                }
            }
        }
    }

    /// Checks an address that is no hole. Returns whether it is a block that only this file uses.
    fn address(&mut self, file: &mut FileWalk, node: &Expected, index: u16, page: u64, address: DataAddress) -> bool {
        file.blocks += 1;
        file.meet_page(page, address);
        let ino = node.ino;
        if file.is_quota && page >= file.inode.head.size.get().div_ceil(self.geometry.block_size() as u64) {
            self.report.fault(FindingKind::Quota, of(ino).at(node.at), || {
                format!("page {page} of a quota file of {} bytes", file.inode.head.size.get())
            });
            self.mend_address(file, node, index);
            // It no longer belongs to this file, and may belong to another.
            if self.mender.is_some() {
                return false;
            }
        }
        match address {
            DataAddress::At(here) if self.geometry.main(here).is_some() && !self.blocks.reaches(here) => {
                file.behind_end += 1;
                if file.is_directory() {
                    (file.whole, self.whole) = (false, false);
                }
                self.mend_address(file, node, index);
                false
            }
            DataAddress::At(here) if self.geometry.main(here).is_some() => {
                let claim = Claim { at: here, nid: node.nid, ino, index, version: node.version, is_node: false };
                let first = self.claim(claim);
                if first && (file.inode.kind != FileKind::Regular || file.is_quota) {
                    file.pages.extend(u32::try_from(page).ok().map(|page| (page, here)));
                } else if !first && file.is_directory() {
                    // Another owner's block is not read again, so names may be missing.
                    (file.whole, self.whole) = (false, false);
                }
                if !first {
                    self.mend_address(file, node, index);
                }
                first
            }
            DataAddress::Reserved | DataAddress::Hole => {
                self.totals.reserved += 1;
                false
            }
            DataAddress::Compressed => {
                self.totals.reserved += 1;
                self.report.fault(FindingKind::Address, of(ino).at(node.at), || {
                    format!("page {page} starts a compressed cluster where none may start")
                });
                self.mend_address(file, node, index);
                false
            }
            DataAddress::At(here) => {
                self.report.fault(FindingKind::Address, of(ino).at(node.at), || {
                    format!("page {page} has the address {:#x}, outside the main area", here.0)
                });
                self.mend_address(file, node, index);
                false
            }
        }
    }

    /// Checks a device alias: its extent covers one whole device other than the first
    /// (extent_cache.c, `sanity_check_extent_cache`), and no summary names its blocks (fsck.c,
    /// `fsck_chk_data_blk`).
    pub fn device_alias(&mut self, file: &mut FileWalk) {
        let (ino, here, head) = (file.inode.nid, file.expected.at, file.inode.head);
        let start = u64::from(head.extent.address.get());
        let blocks = start..start + u64::from(head.extent.length.get());
        if !blocks.is_empty() && !self.geometry.device_blocks().skip(1).any(|device| device == blocks) {
            self.report.fault(FindingKind::Extent, of(ino).at(here), || {
                format!("stands for blocks {:#x} up to {:#x}, which are no device's", blocks.start, blocks.end)
            });
            file.whole = false;
            return;
        }
        if !head.has_inline(inline::PINNED) {
            self.report.fault(FindingKind::Inode, of(ino).at(here), || "a device alias that is not pinned".into());
        }
        file.blocks += blocks.end - blocks.start;
        let mut others = 0_u64;
        for block in blocks {
            let at = BlockAddress(u32::try_from(block).unwrap_or(u32::MAX));
            file.behind_end += u64::from(!self.blocks.reaches(at));
            others += u64::from(!self.claim_unnamed(at, ino));
        }
        if others > 0 {
            self.report.fault(FindingKind::Owners, of(ino).at(here), || {
                format!("{others} blocks of the device that it is an alias of have other owners too")
            });
        }
        let bytes = file.blocks.saturating_sub(1) << self.geometry.log_block_size();
        if head.size.get() != bytes {
            self.report.fault(FindingKind::Inode, of(ino).at(here), || {
                format!("a size of {} bytes; the device that it is an alias of has {bytes}", head.size.get())
            });
        }
    }

    /// Turns an invalid address into a hole.
    fn mend_address(&mut self, file: &FileWalk, node: &Expected, index: u16) {
        let in_inode = node.nid == file.inode.nid;
        self.drop_of(node.ino, || format!("address {index} of {}", node.nid));
        self.mend_word(node.at, file.words_start + usize::from(index) * 4, in_inode, 0);
    }

    /// Checks a compressed cluster: its blocks, then reserved addresses, or holes once these were
    /// released (f2fs.md, "Compressed files").
    fn cluster(&mut self, file: &mut FileWalk, node: &Expected, first: u16, page: u64, addresses: &[DataAddress]) {
        let released = file.inode.head.has_inline(inline::COMPRESS_RELEASED);
        if !released {
            file.blocks += 1;
            file.saved += 1;
            self.totals.reserved += 1;
        }
        file.meet_page(page, DataAddress::Compressed);
        let mut blocks = Vec::new();
        let (mut ended, mut wrong, mut own) = (false, false, true);
        for (number, address) in addresses.iter().enumerate().skip(1) {
            let page = page + number as u64;
            match address {
                DataAddress::At(here) => {
                    wrong |= ended;
                    blocks.push(*here);
                    own &= self.address(file, node, first + number as u16, page, *address);
                }
                DataAddress::Reserved => {
                    ended = true;
                    file.saved += u64::from(!released);
                    self.address(file, node, first + number as u16, page, *address);
                }
                DataAddress::Hole => ended = true,
                DataAddress::Compressed => {
                    wrong = true;
                    self.address(file, node, first + number as u16, page, *address);
                }
            }
        }
        let place = of(node.ino).at(node.at);
        let cluster = page / u64::from(file.inode.cluster);
        if wrong || blocks.is_empty() {
            self.report.fault(FindingKind::Compression, place, || {
                format!("compressed cluster {cluster}: {} blocks, not directly after its mark", blocks.len())
            });
            for number in 0..addresses.len() {
                self.mend_address(file, node, first + number as u16);
            }
        } else if !own {
            // The rest of it cannot be decompressed.
            for number in 0..addresses.len() {
                self.mend_address(file, node, first + number as u16);
            }
        } else if !file.inode.is_encrypted() {
            self.check_cluster(&file.inode, cluster, &blocks);
        }
    }

    /// Compares an inode's totals with the blocks found.
    pub fn finish_file(&mut self, file: &mut FileWalk) {
        if file.whole && self.is_lost_without_target(file) {
            self.inodes.change(file.inode.nid).flags |= state::DAMAGED;
            return;
        }
        self.count_usage(&file.inode);
        if file.behind_end > 0 {
            self.whole = false;
            self.report.fault(FindingKind::CutShort, of(file.inode.nid).at(file.expected.at), || {
                format!("{} of its blocks are past the end of the device", file.behind_end)
            });
        }
        if !file.whole {
            return;
        }
        if file.is_quota {
            let (nid, size) = (file.inode.nid, file.inode.head.size.get());
            self.quotas.files.push(QuotaPages { nid, size, pages: std::mem::take(&mut file.pages) });
        }
        let head = &file.inode.head;
        let place = of(file.inode.nid).at(file.expected.at);
        if head.blocks.get() != file.blocks {
            let (have, counted) = (head.blocks.get(), file.blocks);
            self.report
                .fault(FindingKind::Count, place, || format!("the inode counts {have} blocks; {counted} were found"));
            self.mend_head(file.expected.at, |head| head.blocks = counted.into());
        }
        let extent = head.extent;
        // On volumes that are never written, the extent of a compressed file counts clusters; the
        // extent of a device alias is the device. Inline content has none.
        let counts_pages = !file.inode.is_compressed() || !self.geometry.features.has(Features::READ_ONLY);
        if counts_pages && !file.inode.is_device_alias() && file.extent_pages != u64::from(extent.length.get()) {
            self.report.fault(FindingKind::Extent, place, || {
                format!(
                    "the largest extent is pages {} up to {} at {:#x}; {} of them are there",
                    extent.page.get(),
                    u64::from(extent.page.get()) + u64::from(extent.length.get()),
                    extent.address.get(),
                    file.extent_pages
                )
            });
            self.mend_head(file.expected.at, |head| head.extent.length = 0.into());
        }
        if let Some(extra) = file.inode.extra.filter(|_| file.inode.is_compressed())
            && extra.compressed_blocks.get() != file.saved
        {
            let (have, saved) = (extra.compressed_blocks.get(), file.saved);
            self.report.fault(FindingKind::Count, place, || {
                format!("the inode counts {have} blocks saved by compression; it saved {saved}")
            });
            self.mend_inode(file.expected.at, |block| put(block, COMPRESSED_BLOCKS, &saved.to_le_bytes()));
        }
        if file.has_addresses {
            self.check_size(file);
        }
        if file.inode.kind == FileKind::Symlink {
            self.check_link(file);
        }
    }

    /// Sets a directory's size to the end of its last page.
    fn mend_size(&mut self, file: &FileWalk) {
        let size = file.end_page.max(1).saturating_mul(self.geometry.block_size() as u64);
        self.mend_head(file.expected.at, |head| head.size = size.into());
    }

    /// Checks for blocks past the size. A directory's would never be found; a file may have them
    /// legitimately or from an interrupted write.
    fn check_size(&mut self, file: &FileWalk) {
        let head = &file.inode.head;
        let (size, block) = (head.size.get(), self.geometry.block_size() as u64);
        let place = of(file.inode.nid).at(file.expected.at);
        let pages = file.inode.tree_shape(self.geometry).pages();
        if size.div_ceil(block) > pages {
            self.report.fault(FindingKind::Inode, place, || {
                format!("a size of {size} bytes; a file has {pages} blocks at most")
            });
            self.mend_head(file.expected.at, |head| head.size = file.end_page.saturating_mul(block).into());
        }
        let behind = file.end_page > size.div_ceil(block);
        match file.inode.kind {
            FileKind::Directory if !size.is_multiple_of(block) || size == 0 => {
                self.report.fault(FindingKind::Directory, place, || {
                    format!("a directory of {size} bytes; expected whole blocks")
                });
                self.mend_size(file);
            }
            FileKind::Directory if behind => {
                let pages = file.end_page;
                self.report
                    .fault(FindingKind::Directory, place, || format!("a directory of {size} bytes has {pages} pages"));
                self.mend_size(file);
            }
            // Space allocated ahead, blocks to be truncated at the next open, verity hashes.
            FileKind::Regular
                if behind
                    && ![advise::KEEP_SIZE, advise::TRUNCATE, advise::VERITY]
                        .iter()
                        .any(|bit| head.has_advise(*bit)) =>
            {
                let pages = file.end_page;
                self.report.harmless(FindingKind::Inode, place, || {
                    format!("{size} bytes, but blocks up to page {pages}: a write may have been interrupted")
                });
            }
            _ => {}
        }
    }
}

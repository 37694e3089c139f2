//! Compressed clusters (f2fs.md, "Compressed files").

use std::sync::{Arc, Mutex, PoisonError};

use nandkit_codec::compression::{Compression, Decompressor};
use nandkit_units::Cause;
use nandkit_vfs::Result;

use crate::blocks::{Blocks, Nodes};
use crate::findings::{Defect, FindingKind};
use crate::ids::{BlockAddress, DataAddress, NodeId};
use crate::inode::Inode;
use crate::layout::word;
use crate::node::tree::{Addresses, Leaf, leaf};
use crate::runs::{read_run, run_at};

/// Size of the header before the compressed bytes: length, checksum, reserved words.
const HEAD_BYTES: usize = 24;

/// The content of the cluster read last, so that small sequential reads decompress it once.
#[derive(Default)]
pub struct Clusters(Mutex<Last>);

#[derive(Default)]
struct Last {
    decompressor: Decompressor,
    cluster: Option<(NodeId, u64, Arc<[u8]>)>,
}

impl std::fmt::Debug for Clusters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Clusters").finish_non_exhaustive()
    }
}

impl Clusters {
    /// Reads from byte `at` of a compressed file up to the end of its cluster or of `into`; returns
    /// the number of bytes read.
    pub(crate) fn read(
        &self,
        volume: &(impl Blocks + Nodes),
        inode: &Inode,
        at: u64,
        into: &mut [u8],
    ) -> Result<usize> {
        let size = volume.geometry().block_size() as u64;
        let cluster_bytes = u64::from(inode.cluster) * size;
        let (cluster, within) = (at / cluster_bytes, at % cluster_bytes);
        let first = cluster * u64::from(inode.cluster);
        let addresses = match leaf(volume, inode, first)? {
            Leaf::Addresses(addresses) if addresses.get(0) == DataAddress::Compressed => addresses,
            // Uncompressed pages; reads no further than the cluster.
            _ => {
                let page = at / size;
                let wanted = (at % size + into.len() as u64).div_ceil(size);
                let run = run_at(volume, inode, page, (first + u64::from(inode.cluster) - page).min(wanted))?;
                let mut pieces = Vec::new();
                let mut rest = into;
                let done = read_run(volume, run, at % size, &mut rest, &mut pieces)?;
                volume.read_together(Cause::UserData, &mut pieces)?;
                return Ok(done);
            }
        };
        let content = self.content(volume, inode, cluster, &addresses)?;
        let part = content.get(within as usize..).unwrap_or_default();
        let length = part.len().min(into.len());
        into.get_mut(..length).unwrap_or_default().copy_from_slice(part.get(..length).unwrap_or_default());
        Ok(length)
    }

    fn content(&self, volume: &impl Blocks, inode: &Inode, cluster: u64, addresses: &Addresses) -> Result<Arc<[u8]>> {
        let held = |last: &Last| match &last.cluster {
            Some((nid, number, content)) if (*nid, *number) == (inode.nid, cluster) => Some(content.clone()),
            _ => None,
        };
        if let Some(content) = held(&self.0.lock().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(content);
        }
        let packed = packed_bytes(volume, inode, cluster, addresses)?;
        let mut content = vec![0; usize::from(inode.cluster) * volume.geometry().block_size()];
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        decompress(&mut last.decompressor, inode, cluster, &packed, &mut content)?;
        let content: Arc<[u8]> = content.into();
        last.cluster = Some((inode.nid, cluster, content.clone()));
        Ok(content)
    }
}

#[cold]
fn damaged(inode: &Inode, cluster: u64, what: impl std::fmt::Display) -> Defect {
    Defect::new(FindingKind::Compression, format!("compressed cluster {cluster}: {what}")).of(inode.nid)
}

/// Reads and joins the compressed blocks of a cluster.
fn packed_bytes(volume: &impl Blocks, inode: &Inode, cluster: u64, addresses: &Addresses) -> Result<Vec<u8>> {
    let blocks = (1..u64::from(inode.cluster)).map(|number| addresses.get(number));
    let blocks: Vec<BlockAddress> = blocks
        .take_while(|address| !matches!(address, DataAddress::Hole | DataAddress::Reserved))
        .map(|address| match address {
            DataAddress::At(at) if volume.geometry().main(at).is_some() => Ok(at),
            other => Err(damaged(inode, cluster, format!("an address of {:#x}, outside the main area", other.field()))),
        })
        .collect::<std::result::Result<_, Defect>>()?;
    join(volume, &blocks)
}

/// Reads blocks into one buffer in order, adjacent ones in one request. Errors: `Device`, `Corrupt`
/// (cut short).
pub(crate) fn join(volume: &(impl Blocks + ?Sized), blocks: &[BlockAddress]) -> Result<Vec<u8>> {
    let size = volume.geometry().block_size();
    let mut packed = vec![0; blocks.len() * size];
    let mut next = 0;
    while let Some(&start) = blocks.get(next) {
        let run =
            blocks.iter().skip(next).zip(start.0..).take_while(|(block, expected)| block.0 == *expected).count().max(1);
        volume.read(Cause::UserData, start, packed.get_mut(next * size..(next + run) * size).unwrap_or_default())?;
        next += run;
    }
    Ok(packed)
}

/// The stored and the computed checksum of a cluster, if its file has checksums and they differ
/// (f2fs.md, "Compressed files").
pub(crate) fn wrong_checksum(inode: &Inode, packed: &[u8]) -> Option<(u32, u32)> {
    let has_checksum = inode.extra.is_some_and(|extra| extra.compression_flags.get() & 1 != 0);
    let (length, stored) = (word(packed, 0)? as usize, word(packed, 4)?);
    let computed = crate::layout::checksum(packed.get(HEAD_BYTES..)?.get(..length)?);
    (has_checksum && stored != computed).then_some((stored, computed))
}

/// Decompresses the joined blocks of a cluster. Errors: a defect that says why it failed.
pub(crate) fn decompress(
    decompressor: &mut Decompressor,
    inode: &Inode,
    cluster: u64,
    packed: &[u8],
    content: &mut [u8],
) -> std::result::Result<(), Defect> {
    let algorithm = inode.extra.map_or(0, |extra| extra.compression);
    let method = match algorithm {
        // The stream itself says whether it is lzo-rle.
        0 | 3 => Compression::Lzo,
        1 => Compression::Lz4,
        2 => Compression::Zstd,
        other => {
            let detail = format!("method {other}; LZO (0), LZ4 (1), zstd (2) and LZO-RLE (3) can be read");
            return Err(Defect { kind: FindingKind::Unsupported, ..damaged(inode, cluster, detail) });
        }
    };
    let length = word(packed, 0).unwrap_or(0) as usize;
    let Some(stream) = packed.get(HEAD_BYTES..).and_then(|bytes| bytes.get(..length)) else {
        let room = packed.len().saturating_sub(HEAD_BYTES);
        return Err(damaged(inode, cluster, format!("{length} bytes in blocks that hold {room}")));
    };
    // Linux only logs a wrong checksum and returns the data (compress.c,
    // `f2fs_decompress_cluster`); so does this.
    decompressor.decompress(method, stream, content).map_err(|error| damaged(inode, cluster, error))
}

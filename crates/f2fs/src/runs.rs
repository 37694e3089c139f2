//! Runs: consecutive pages of a file that are also adjacent on the device.

use nandkit_units::Cause;
use nandkit_vfs::Result;

use crate::blocks::{Blocks, Nodes, Piece};
use crate::findings::{Defect, FindingKind};
use crate::ids::{BlockAddress, DataAddress};
use crate::inode::Inode;
use crate::node::tree::{Addresses, Leaf, leaf};

/// Consecutive pages of a file and their location.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The number of pages, at least one.
    pub pages: u64,
    /// The block of the first page, followed by those of the others; `None` if the pages read as
    /// zeros.
    pub at: Option<BlockAddress>,
    /// Whether the pages are a hole: neither blocks nor reserved addresses.
    pub is_hole: bool,
}

/// The run that starts at a page, at most `most` pages long. In a compressed file only for clusters
/// that are not compressed. Errors: `Corrupt` (an address outside the main area, a misplaced
/// compression mark), `Device`.
pub fn run_at(volume: &(impl Blocks + Nodes), inode: &Inode, page: u64, most: u64) -> Result<Run> {
    match leaf(volume, inode, page)? {
        Leaf::Hole { pages } => Ok(Run { pages: pages.min(most), at: None, is_hole: true }),
        Leaf::Addresses(addresses) => run_of(volume, inode, page, &addresses, most),
    }
}

fn run_of(volume: &impl Blocks, inode: &Inode, page: u64, addresses: &Addresses, most: u64) -> Result<Run> {
    let first = addresses.get(0);
    let most = most.min(u64::from(addresses.count));
    let wrong = |detail: String| Err(Defect::new(FindingKind::Address, detail).of(inode.nid).into_error());
    match first {
        DataAddress::Compressed => wrong(format!("page {page} starts a compressed cluster where none may start")),
        DataAddress::Hole | DataAddress::Reserved => {
            let pages = (1..most).take_while(|&number| addresses.get(number) == first).count() as u64 + 1;
            Ok(Run { pages, at: None, is_hole: first == DataAddress::Hole })
        }
        DataAddress::At(at) => {
            if volume.geometry().main(at).is_none() {
                return wrong(format!("page {page} is at {at}, outside the main area"));
            }
            let room = volume.geometry().main_end() - u64::from(at.0);
            let follows =
                |number: u64| addresses.get(number) == DataAddress::At(BlockAddress(at.0.wrapping_add(number as u32)));
            let pages = (1..most.min(room)).take_while(|&number| follows(number)).count() as u64 + 1;
            Ok(Run { pages, at: Some(at), is_hole: false })
        }
    }
}

/// Takes bytes of a run from byte `within` on, as far as both run and `into` reach; returns how
/// many. Zeros and a partial block are filled in at once; whole blocks are queued in `pieces` to be
/// read later.
pub(crate) fn read_run<'a>(
    volume: &impl Blocks,
    run: Run,
    within: u64,
    into: &mut &'a mut [u8],
    pieces: &mut Vec<Piece<'a>>,
) -> Result<usize> {
    let size = volume.geometry().block_size();
    let bytes = run.pages.saturating_mul(size as u64).saturating_sub(within);
    let length = usize::try_from(bytes).unwrap_or(usize::MAX).min(into.len());
    let mut take = |length: usize| {
        let (now, later) = std::mem::take(into).split_at_mut(length);
        *into = later;
        now
    };
    let Some(at) = run.at else {
        take(length).fill(0);
        return Ok(length);
    };
    let behind = |blocks: usize| BlockAddress(at.0.saturating_add(blocks as u32));
    let skip = within as usize;
    if skip == 0 && length >= size {
        let whole = length - length % size;
        pieces.push((at, take(whole)));
        return Ok(whole);
    }
    // A partial block.
    let mut block = vec![0; size];
    volume.read(Cause::UserData, behind(skip / size), &mut block)?;
    let part = block.get(skip % size..).unwrap_or_default();
    let length = part.len().min(length);
    take(length).copy_from_slice(part.get(..length).unwrap_or_default());
    Ok(length)
}

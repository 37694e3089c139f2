//! Which segments the logs of a new volume take.

use nandkit_vfs::{ErrorKind, FsError, Result};

use super::geometry::NewGeometry;
use crate::ids::{BlockAddress, Log, SegmentIndex};
use crate::layout::{BLOCKS_PER_SEGMENT, Features, Geometry};

/// Blocks for each log, by [`Log::index`].
pub type LogBlocks = [u64; Log::COUNT];

/// Segments of each log in the order in which it fills them. The last one is never full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogSegments {
    segments: [Vec<u32>; Log::COUNT],
    main_address: BlockAddress,
}

/// The log in whose segments another one's blocks go: in read-only volumes there are two.
pub const fn shared(log: Log, features: Features) -> Log {
    match (features.has(Features::READ_ONLY), log.is_node()) {
        (false, _) => log,
        (true, true) => Log::HotNode,
        (true, false) => Log::HotData,
    }
}

/// Sections that the logs take in all: a log's last segment is never full.
pub fn sections_needed(blocks: &LogBlocks, features: Features, segments_per_section: u32) -> u64 {
    let own = Log::ALL.into_iter().filter(|log| shared(*log, features) == *log);
    own.map(|log| segments_of(blocks, log).div_ceil(u64::from(segments_per_section.max(1)))).sum()
}

fn segments_of(blocks: &LogBlocks, log: Log) -> u64 {
    blocks.get(log.index()).map_or(1, |blocks| blocks / u64::from(BLOCKS_PER_SEGMENT) + 1)
}

impl LogSegments {
    /// Each log begins where mkfs.f2fs has it, goes on to the end of its section and then into the
    /// next free one behind, around the end of the volume. Blocks of logs that share segments are
    /// counted under the one that has them. Errors: `NoSpace`; `InvalidArgument` where two logs
    /// begin in one section, as with a read-only volume's in sections of several segments.
    pub fn place(blocks: &LogBlocks, new: &NewGeometry, geometry: &Geometry) -> Result<Self> {
        let per_section = geometry.segments_per_section.max(1);
        let sections = geometry.main_segments / per_section;
        let own = |log: Log| shared(log, geometry.features) == log;
        let first = |log: Log| new.logs.get(log.index()).map_or(0, |segment| *segment as u32) / per_section;
        let mut taken = vec![false; sections as usize];
        let mut take = |section: u32| match taken.get_mut(section as usize) {
            Some(taken) => !std::mem::replace(taken, true),
            None => false,
        };
        let full = || FsError::new(ErrorKind::NoSpace, "the logs take more sections than the volume has");
        if !Log::ALL.into_iter().filter(|log| own(*log)).all(|log| take(first(log))) {
            let shared = format!("two logs begin in one section of {per_section} segments; expected smaller sections");
            return Err(FsError::new(ErrorKind::InvalidArgument, shared));
        }
        let mut segments: [Vec<u32>; Log::COUNT] = Default::default();
        for (log, list) in Log::ALL.into_iter().zip(&mut segments).filter(|(log, _)| own(*log)) {
            let count = segments_of(blocks, log) as usize;
            let mut section = first(log);
            loop {
                let start = section * per_section;
                list.extend(start..start + per_section);
                if list.len() >= count {
                    list.truncate(count);
                    break;
                }
                section =
                    (1..sections).map(|on| (section + on) % sections).find(|&next| take(next)).ok_or_else(full)?;
            }
        }
        Ok(Self { segments, main_address: geometry.main_address() })
    }

    /// The address of a log's block by its number in that log. Behind the last segment there is
    /// none: the first block of the volume, which no log has.
    pub fn address(&self, log: Log, block: u32) -> BlockAddress {
        let list = self.segments.get(log.index());
        match list.and_then(|list| list.get((block / BLOCKS_PER_SEGMENT) as usize)) {
            Some(segment) => {
                BlockAddress(self.main_address.0 + segment * BLOCKS_PER_SEGMENT + block % BLOCKS_PER_SEGMENT)
            }
            None => BlockAddress(0),
        }
    }

    /// A log's segments.
    pub fn of(&self, log: Log) -> impl Iterator<Item = SegmentIndex> + '_ {
        self.segments.get(log.index()).into_iter().flatten().map(|segment| SegmentIndex(*segment))
    }
}

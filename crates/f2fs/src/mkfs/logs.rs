//! Assigns segments to the logs of a new volume.

use nandkit_vfs::{ErrorKind, FsError, Result};

use super::geometry::NewGeometry;
use crate::ids::{BlockAddress, Log, SegmentIndex};
use crate::layout::{BLOCKS_PER_SEGMENT, Features, Geometry};

/// Blocks per log, by [`Log::index`].
pub type LogBlocks = [u64; Log::COUNT];

/// The segments of each log in fill order. The last one is never full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogSegments {
    segments: [Vec<u32>; Log::COUNT],
    main_address: BlockAddress,
}

/// The log that receives the blocks of another one: read-only volumes have only two.
pub const fn shared(log: Log, features: Features) -> Log {
    match (features.has(Features::READ_ONLY), log.is_node()) {
        (false, _) => log,
        (true, true) => Log::HotNode,
        (true, false) => Log::HotData,
    }
}

/// The number of sections that all logs take; a log's last segment is never full.
pub fn sections_needed(blocks: &LogBlocks, features: Features, segments_per_section: u32) -> u64 {
    let own = Log::ALL.into_iter().filter(|log| shared(*log, features) == *log);
    own.map(|log| segments_of(blocks, log).div_ceil(u64::from(segments_per_section.max(1)))).sum()
}

fn segments_of(blocks: &LogBlocks, log: Log) -> u64 {
    blocks.get(log.index()).map_or(1, |blocks| blocks / u64::from(BLOCKS_PER_SEGMENT) + 1)
}

impl LogSegments {
    /// Assigns the segments. Each log starts where mkfs.f2fs puts it, continues to the end of its
    /// section and then in the next free section, wrapping around at the volume's end. Logs that
    /// share segments are counted under the one that owns them. Errors: `NoSpace`;
    /// `InvalidArgument` if two logs start in one section, as on a read-only volume with sections
    /// of several segments.
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
            let shared = format!("two logs start in one section of {per_section} segments; expected smaller sections");
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

    /// The address of a log's block by its number in the log. Past the last segment it is the
    /// volume's first block, which no log has.
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

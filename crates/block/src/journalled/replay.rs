//! Reading the journal that a crash left.

use std::io;

use super::extents::{Extent, ExtentMap, Source};
use super::layout::{FRAME_SIZE, Frame, FrameKind, PAYLOAD_MAX, journal_start};
use crate::BlockGeometry;
use crate::medium::Medium;

/// The content of a journal left by a crash.
pub struct ReplayableJournal {
    /// The changes of a complete journal; `None` if it is incomplete.
    pub extents: Option<ExtentMap>,
    /// The sequence number of its first frame, 0 if there is none.
    pub sequence: u64,
}

/// Reads the journal up to its commit frame, verifying every checksum. Memory: one frame's payload
/// and the extents.
pub fn read_journal<M: Medium>(medium: &M, geometry: &BlockGeometry, length: u64) -> io::Result<ReplayableJournal> {
    let mut found = ReplayableJournal { extents: None, sequence: 0 };
    let mut extents = ExtentMap::new(geometry.sector_size);
    let mut chain = crc32fast::Hasher::new();
    let mut payload = Vec::new();
    let mut frames = 0u64;
    let mut position = journal_start(geometry);
    while position.saturating_add(FRAME_SIZE as u64) <= length {
        let mut head = [0; FRAME_SIZE];
        medium.read_at(position, &mut head)?;
        let Some(frame) = Frame::decode(&head) else { break };
        if frames == 0 {
            found.sequence = frame.sequence;
        }
        if frame.sequence != found.sequence {
            break;
        }
        position += FRAME_SIZE as u64;
        if frame.kind == FrameKind::Commit {
            if frame.at == frames && frame.payload_crc == chain.clone().finalize() {
                found.extents = Some(extents);
            }
            return Ok(found);
        }
        if frame.at > geometry.sectors || frame.sectors > geometry.sectors - frame.at {
            break;
        }
        let mut source = Source::Zero;
        if frame.kind == FrameKind::Data {
            let bytes = frame.sectors.saturating_mul(u64::from(geometry.sector_size));
            if bytes > PAYLOAD_MAX as u64 || position + bytes > length {
                break;
            }
            payload.resize(bytes as usize, 0);
            medium.read_at(position, &mut payload)?;
            if crc32fast::hash(&payload) != frame.payload_crc {
                break;
            }
            source = Source::Journal { offset: position };
            position += bytes;
        }
        extents.insert(frame.at, Extent { sectors: frame.sectors, source });
        chain.update(&head);
        frames += 1;
    }
    Ok(found)
}

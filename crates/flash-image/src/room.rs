//! Reserving disk space for changes: a file with holes takes more space once they are written, and
//! a full disk is better detected before the first change than half-way.

use std::fs::File;
use std::io;
use std::ops::Range;

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use crate::pieces::Piece;

/// Reserves space for the pieces of file `number`, whose bytes stay unchanged. If the file system
/// does not support this, a full disk is detected only on writing. Errors: the disk is full.
pub(crate) fn reserve(file: &File, number: u8, pieces: &[Piece<'_>]) -> io::Result<()> {
    let mut ranges: Vec<Range<u64>> =
        pieces.iter().filter(|piece| piece.file == number).map(|piece| piece.offset..piece.end()).collect();
    ranges.sort_by_key(|range| range.start);
    ranges.dedup_by(|next, last| {
        let meets = next.start <= last.end;
        if meets {
            last.end = last.end.max(next.end);
        }
        meets
    });
    for range in ranges.iter().filter(|range| !range.is_empty()) {
        // The length must stay: a journal changes it explicitly.
        let reserved = rustix::fs::fallocate(file, FallocateFlags::KEEP_SIZE, range.start, range.end - range.start);
        // Unsupported, a device, or any other error: writing will show.
        if let Err(error @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG | Errno::IO)) = reserved {
            return Err(error.into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;
    use crate::pieces::PieceContent;

    #[test]
    fn room_is_had_for_each_piece_of_the_file_and_nothing_changes() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(100 << 20).unwrap();
        let piece = |file, offset: u64, length| Piece { file, offset, content: PieceContent::Erased(length) };
        let pieces = [piece(0, 9 << 20, 4096), piece(1, 0, 50 << 20), piece(0, 1 << 20, 1 << 20), piece(0, 1 << 20, 9)];
        reserve(&file, 0, &pieces).unwrap();
        let found = file.metadata().unwrap();
        assert_eq!(found.len(), 100 << 20);
        let room = found.blocks() * 512;
        // Zero if the file system under the test does not support this.
        assert!(room == 0 || (1 << 20..3 << 20).contains(&room), "{room}");
    }
}

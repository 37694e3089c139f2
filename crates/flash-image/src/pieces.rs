//! Pieces of files to be replaced, and how they are laid over bytes.

/// A stretch of a file with the bytes that replace it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece<'a> {
    /// 0 is the image, 1 the OOB file.
    pub file: u8,
    pub offset: u64,
    pub content: PieceContent<'a>,
}

/// What a piece holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PieceContent<'a> {
    Bytes(&'a [u8]),
    /// So many bytes of 0xFF.
    Erased(u64),
}

impl Piece<'_> {
    pub fn len(&self) -> u64 {
        match self.content {
            PieceContent::Bytes(bytes) => bytes.len() as u64,
            PieceContent::Erased(length) => length,
        }
    }

    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.len())
    }
}

/// Lays a piece over bytes, which grow as needed; a gap is erased.
pub(crate) fn put(bytes: &mut Vec<u8>, piece: &Piece<'_>) {
    let end = usize::try_from(piece.end()).unwrap_or(usize::MAX);
    if end > bytes.len() {
        bytes.resize(end, 0xFF);
    }
    overwrite(bytes, piece);
}

/// Lays a piece over bytes, as far as these reach to its end.
pub(crate) fn overwrite(bytes: &mut [u8], piece: &Piece<'_>) {
    let start = usize::try_from(piece.offset).unwrap_or(usize::MAX);
    let end = usize::try_from(piece.end()).unwrap_or(usize::MAX);
    if let Some(into) = bytes.get_mut(start..end) {
        match piece.content {
            PieceContent::Bytes(bytes) => into.copy_from_slice(bytes),
            PieceContent::Erased(_) => into.fill(0xFF),
        }
    }
}

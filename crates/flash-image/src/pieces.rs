//! Pieces of files to be replaced, and applying them to bytes.

/// A byte range of a file with its replacement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece<'a> {
    /// The file: 0 is the image, 1 the OOB file.
    pub file: u8,
    pub offset: u64,
    pub content: PieceContent<'a>,
}

/// The content of a piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PieceContent<'a> {
    Bytes(&'a [u8]),
    /// This many bytes of 0xFF.
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

/// Applies a piece to bytes, which grow as needed; a gap is erased.
pub(crate) fn put(bytes: &mut Vec<u8>, piece: &Piece<'_>) {
    let end = usize::try_from(piece.end()).unwrap_or(usize::MAX);
    if end > bytes.len() {
        bytes.resize(end, 0xFF);
    }
    overwrite(bytes, piece);
}

/// Applies a piece to bytes, without growing them.
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

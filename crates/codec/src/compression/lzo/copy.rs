//! The cost of copy instructions, shared by the optimal parser and the emitter.

/// The forms of a copy, cheapest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Two bytes from up to 1 KiB back, after 1 to 3 literals.
    Pair,
    /// Three bytes from 2049 to 3072 back, after 4 or more literals.
    Triple,
    /// 3 to 8 bytes from up to 2 KiB back.
    Near,
    /// 3 or more bytes from up to 16 KiB back.
    Middle,
    /// 3 or more bytes from up to 48 KiB back.
    Far,
}

impl Form {
    /// The shortest form of a copy after `literals` literals (4 means more), if there is one.
    pub(super) const fn of(length: usize, distance: usize, literals: u32) -> Option<Self> {
        match (length, distance) {
            (2, 1..=1024) if 0 < literals && literals < 4 => Some(Self::Pair),
            (3, 2049..=3072) if literals == 4 => Some(Self::Triple),
            (3..=8, 1..=2048) => Some(Self::Near),
            (3.., 1..=0x4000) => Some(Self::Middle),
            (3.., 0x4001..=super::FARTHEST) => Some(Self::Far),
            _ => None,
        }
    }

    /// Length of the instruction in bytes.
    pub(super) const fn cost(self, length: usize) -> u32 {
        match self {
            Self::Pair | Self::Triple | Self::Near => 2,
            Self::Middle => 3 + extension(length, 33),
            Self::Far => 3 + extension(length, 9),
        }
    }
}

/// Bytes needed to extend a length beyond `most`, the maximum that the instruction holds itself.
const fn extension(length: usize, most: usize) -> u32 {
    // Lengths are below 2 GiB.
    length.saturating_sub(most).div_ceil(255) as u32
}

/// Extra bytes that `count` literals need. `first`: at the start of the stream.
pub(super) const fn literal_header(count: usize, first: bool) -> u32 {
    match count {
        0 => 0,
        1..=238 if first => 1,
        1..=3 => 0,
        _ => 1 + extension(count, 18),
    }
}

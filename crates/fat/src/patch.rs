//! Changes within a sector, and the order in which they reach the medium.

/// The phases in which changes reach the medium, in order; `docs/formats/fat.md` explains what this
/// order protects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Phase {
    /// Content that nothing on the medium refers to yet: data, new chains, new directory clusters,
    /// long-name slots.
    Prepare,
    /// The end of a chain gets a successor.
    Link,
    /// An entry that is about to move over an existing one is marked.
    Mark,
    /// Directory entries appear, change, or disappear with their file.
    Publish,
    /// Directory entries disappear whose file has another entry by now.
    Unpublish,
    /// A chain becomes shorter.
    Cut,
    /// Clusters and long-name slots become free.
    Free,
}

impl Phase {
    /// All phases in order.
    pub const ALL: [Self; 7] =
        [Self::Prepare, Self::Link, Self::Mark, Self::Publish, Self::Unpublish, Self::Cut, Self::Free];

    /// The bit of this phase in a set of phases.
    pub const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// A change of up to 32 bytes within a sector.
#[derive(Clone, Copy, Debug)]
pub struct Patch {
    /// Offset of the first byte in the sector.
    pub offset: u32,
    /// Number of bytes.
    pub length: u8,
    /// Bits to change in the first byte.
    pub first_mask: u8,
    /// Bits to change in the last byte.
    pub last_mask: u8,
    /// The phase of the flush in which it is written.
    pub phase: Phase,
    /// The new bytes.
    pub bytes: [u8; 32],
}

impl Patch {
    /// A patch of whole bytes.
    pub fn new(offset: u32, bytes: &[u8], phase: Phase) -> Self {
        let mut own = [0; 32];
        let length = bytes.len().min(own.len());
        own.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        Self { offset, length: length as u8, first_mask: 0xFF, last_mask: 0xFF, phase, bytes: own }
    }

    /// Distinguishes the patches of a sector: the first byte, and whether only its high half
    /// changes (two FAT12 entries share a byte).
    pub fn key(&self) -> (u32, bool) {
        (self.offset, self.first_mask == 0xF0)
    }

    fn copy(&self, from: &[u8], to: &mut [u8]) {
        let last = usize::from(self.length).saturating_sub(1);
        for (at, (to, from)) in to.iter_mut().zip(from).take(usize::from(self.length)).enumerate() {
            let mut mask = 0xFF;
            if at == 0 {
                mask &= self.first_mask;
            }
            if at == last {
                mask &= self.last_mask;
            }
            *to = *to & !mask | from & mask;
        }
    }

    /// Applies the change.
    pub fn apply(&self, sector: &mut [u8]) {
        if let Some(to) = sector.get_mut(self.offset as usize..) {
            self.copy(&self.bytes, to);
        }
    }

    /// Reverts the change: restores the bits of `base`.
    pub fn restore(&self, base: &[u8], sector: &mut [u8]) {
        let at = self.offset as usize;
        if let (Some(from), Some(to)) = (base.get(at..), sector.get_mut(at..)) {
            self.copy(from, to);
        }
    }
}

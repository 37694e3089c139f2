//! Flaws of single pages: torn programs, failed programs, damage carried over by copyback. They are
//! an overlay: the stored bytes stay intact.

use std::collections::BTreeMap;
use std::sync::Arc;

use nandkit_units::random::hash;
use nandkit_units::{BlockIndex, PageAddress};

/// The flaw of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// A mix of programmed and unprogrammed bits. The seed determines whether reads fail, deliver
    /// garbage, or vary.
    Garbage,
    /// Every read fails: the page was programmed into a weakly erased block.
    Unreadable,
    /// Bit errors per code word that copyback wrote into the page.
    Inherited(u16),
}

impl Flaw {
    /// Encodes the flaw as two fields of a saved chip.
    pub const fn to_saved(self) -> (u8, u16) {
        match self {
            Self::Garbage => (1, 0),
            Self::Unreadable => (2, 0),
            Self::Inherited(bits) => (3, bits),
        }
    }

    /// Decodes a saved flaw; `None` if there is none.
    pub const fn from_saved(kind: u8, bits: u16) -> Option<Self> {
        match kind {
            1 => Some(Self::Garbage),
            2 => Some(Self::Unreadable),
            3 => Some(Self::Inherited(bits)),
            _ => None,
        }
    }
}

/// The flaws of all pages, shared between snapshots until one of them changes.
#[derive(Clone, Debug, Default)]
pub struct Flaws {
    pages: Arc<BTreeMap<PageAddress, Flaw>>,
}

impl Flaws {
    /// The flaw of a page, if any.
    pub fn get(&self, at: PageAddress) -> Option<Flaw> {
        self.pages.get(&at).copied()
    }

    /// Sets the flaw of a page.
    pub fn set(&mut self, at: PageAddress, flaw: Flaw) {
        Arc::make_mut(&mut self.pages).insert(at, flaw);
    }

    /// Removes the flaw of a page that lost its content.
    pub fn remove(&mut self, at: PageAddress) {
        if self.pages.contains_key(&at) {
            Arc::make_mut(&mut self.pages).remove(&at);
        }
    }

    /// Removes the flaws of an erased block.
    pub fn mend(&mut self, block: BlockIndex) {
        let damaged: Vec<PageAddress> =
            self.pages.range(block.page(0)..=block.page(u32::MAX)).map(|(at, _)| *at).collect();
        if !damaged.is_empty() {
            let pages = Arc::make_mut(&mut self.pages);
            damaged.iter().for_each(|at| {
                pages.remove(at);
            });
        }
    }
}

/// The random draws for the garbage in one page.
#[derive(Clone, Copy, Debug)]
pub struct Garbage {
    draw: u64,
}

impl Garbage {
    /// The draws for a page in one erase cycle.
    pub const fn new(seed: u64, at: PageAddress, erases: u32) -> Self {
        let place = (at.block.0 as u64) << 32 | at.page as u64;
        Self { draw: hash(seed ^ 0x6A4B_A6E0, place, erases as u64) }
    }

    /// Whether a read fails instead of delivering garbage as data. `reads` is the device's read
    /// count so far.
    pub const fn fails(&self, reads: u64) -> bool {
        match self.draw % 3 {
            0 => true,
            1 => false,
            _ => hash(self.draw, reads, 0) & 1 == 1,
        }
    }

    /// Undoes a part of the programmed zeroes: every byte becomes a mix of its content and 0xFF.
    /// `first` is the first byte's offset in the page.
    pub fn spoil(&self, first: u64, bytes: &mut [u8]) {
        for (at, byte) in (first..).zip(bytes) {
            *byte |= hash(self.draw, at, 1) as u8;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_kinds_of_garbage_occur() {
        let at = |page| Garbage::new(1, PageAddress::new(0, page), 1);
        let always = (0..60).filter(|page| (0..20).all(|reads| at(*page).fails(reads))).count();
        let never = (0..60).filter(|page| (0..20).all(|reads| !at(*page).fails(reads))).count();
        assert!(always > 5 && never > 5 && always + never < 55, "{always} always, {never} never");
        let mut whole = [0u8; 64];
        at(0).spoil(0, &mut whole);
        let mut part = [0u8; 16];
        at(0).spoil(32, &mut part);
        assert_eq!(part, whole[32..48], "the same bytes whichever part is read");
        assert_ne!(whole, [0; 64]);
    }

    #[test]
    fn an_erase_mends_only_its_block() {
        let mut flaws = Flaws::default();
        for block in 0..3 {
            flaws.set(PageAddress::new(block, 7), Flaw::Unreadable);
        }
        let snapshot = flaws.clone();
        flaws.mend(BlockIndex(1));
        assert_eq!(flaws.get(PageAddress::new(1, 7)), None);
        assert_eq!(flaws.get(PageAddress::new(2, 7)), Some(Flaw::Unreadable));
        assert_eq!(snapshot.get(PageAddress::new(1, 7)), Some(Flaw::Unreadable));
    }

    #[test]
    fn flaws_survive_being_saved() {
        for flaw in [Flaw::Garbage, Flaw::Unreadable, Flaw::Inherited(9)] {
            let (kind, bits) = flaw.to_saved();
            assert_eq!(Flaw::from_saved(kind, bits), Some(flaw));
        }
        assert_eq!(Flaw::from_saved(0, 0), None);
    }
}

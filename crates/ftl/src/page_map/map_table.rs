//! The memory of the map: the slot of each logical page.

use std::ops::{Deref, DerefMut};

use memmap2::MmapMut;
use zerocopy::FromBytes;

use super::NOWHERE;

/// Smaller tables in bytes use ordinary memory: the TLB covers their pages of 4 KiB.
const LARGE_BYTES: usize = 8 << 20;

/// A table with one slot number per logical page.
///
/// A random lookup in a table of many megabytes misses not only the caches but also the TLB, and
/// the processor walks its page table as well: on a device of 64 GiB that takes up to a quarter of
/// an overwrite's time. Large tables therefore get a mapping of their own and ask the system for
/// huge pages of 2 MiB. Linux grants them on request unless configured otherwise; elsewhere, and if
/// mapping fails, the table is an ordinary one.
#[derive(Debug)]
pub(crate) struct MapTable(Memory);

#[derive(Debug)]
enum Memory {
    Usual(Vec<u32>),
    Mapped(MmapMut),
}

impl MapTable {
    /// A table in which no page has a slot.
    pub fn new(count: usize) -> Self {
        let mut table = Self(Self::mapped(count).map_or_else(|| Memory::Usual(vec![NOWHERE; count]), Memory::Mapped));
        table.fill(NOWHERE);
        table
    }

    fn mapped(count: usize) -> Option<MmapMut> {
        let bytes = count.checked_mul(size_of::<u32>()).filter(|bytes| *bytes >= LARGE_BYTES)?;
        let memory = MmapMut::map_anon(bytes).ok()?;
        // If the system refuses, small pages work too.
        #[cfg(target_os = "linux")]
        let _ = memory.advise(memmap2::Advice::HugePage);
        Some(memory)
    }
}

impl Deref for MapTable {
    type Target = [u32];

    #[inline(always)]
    fn deref(&self) -> &[u32] {
        match &self.0 {
            Memory::Usual(table) => table,
            // A mapping starts at a page boundary, and this one is a whole number of entries long.
            Memory::Mapped(memory) => <[u32]>::ref_from_bytes(memory).unwrap_or(&[]),
        }
    }
}

impl DerefMut for MapTable {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [u32] {
        match &mut self.0 {
            Memory::Usual(table) => table,
            Memory::Mapped(memory) => <[u32]>::mut_from_bytes(memory).unwrap_or(&mut []),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_and_large_tables_are_alike() {
        for count in [0, 1, 1000, LARGE_BYTES / 4 - 1, LARGE_BYTES / 4, LARGE_BYTES / 4 + 1001] {
            let mut table = MapTable::new(count);
            assert_eq!(matches!(table.0, Memory::Mapped(_)), count >= LARGE_BYTES / 4, "{count}");
            assert_eq!(table.len(), count);
            assert!(table.iter().all(|slot| *slot == NOWHERE), "{count}");
            if let Some(last) = table.last_mut() {
                *last = 7;
                assert_eq!((table.last(), table.iter().filter(|slot| **slot == 7).count()), (Some(&7), 1));
            }
        }
    }
}

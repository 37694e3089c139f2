//! Encodes SIT and NAT entries into their blocks (f2fs.md, "SIT", "NAT").

use zerocopy::IntoBytes;

use super::put;
use crate::layout::{NatEntry, SitEntry};

/// Writes a segment's entry into its SIT block.
pub fn put_sit(block: &mut [u8], index: usize, entry: &SitEntry) {
    put(block, index * size_of::<SitEntry>(), entry.as_bytes());
}

/// Writes a node's entry into its NAT block.
pub fn put_nat(block: &mut [u8], index: usize, entry: &NatEntry) {
    put(block, index * size_of::<NatEntry>(), entry.as_bytes());
}

/// A map of valid blocks with the first `count` bits set.
pub fn valid_up_to(count: u16) -> [u8; crate::layout::sit::VALID_MAP_BYTES] {
    let mut map = [0; crate::layout::sit::VALID_MAP_BYTES];
    for (index, byte) in map.iter_mut().enumerate() {
        let left = usize::from(count).saturating_sub(index * 8).min(8);
        *byte = (0xFF00_u16 >> left) as u8;
    }
    map
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_begin_with_the_highest_bit() {
        for count in [0, 1, 7, 8, 9, 511, 512] {
            let map = valid_up_to(count);
            assert_eq!(crate::bits::count(&map), u32::from(count));
            assert!(count == 0 || crate::bits::msb_first::get(&map, usize::from(count) - 1));
        }
    }
}

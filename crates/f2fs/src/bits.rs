//! Bitmaps in F2FS's two orders of bits (f2fs.md, "Words").

/// Bitmaps whose first bit is a byte's highest: the SIT's maps of valid blocks and the version
/// bitmaps of NAT and SIT.
pub mod msb_first {
    /// Returns bit `number`; bits past the end are clear.
    #[inline]
    pub fn get(map: &[u8], number: usize) -> bool {
        map.get(number >> 3).is_some_and(|byte| byte & (0x80 >> (number & 7)) != 0)
    }

    /// Sets or clears bit `number`; does nothing past the end.
    #[inline]
    pub fn set(map: &mut [u8], number: usize, value: bool) {
        if let Some(byte) = map.get_mut(number >> 3) {
            let bit = 0x80 >> (number & 7);
            *byte = if value { *byte | bit } else { *byte & !bit };
        }
    }
}

/// Bitmaps whose first bit is a byte's lowest: directories, inline entries and nat_bits.
pub mod lsb_first {
    /// Returns bit `number`; bits past the end are clear.
    #[inline]
    pub fn get(map: &[u8], number: usize) -> bool {
        map.get(number >> 3).is_some_and(|byte| byte & (1 << (number & 7)) != 0)
    }

    /// Sets or clears bit `number`; does nothing past the end.
    #[inline]
    pub fn set(map: &mut [u8], number: usize, value: bool) {
        if let Some(byte) = map.get_mut(number >> 3) {
            let bit = 1 << (number & 7);
            *byte = if value { *byte | bit } else { *byte & !bit };
        }
    }
}

/// Counts the set bits.
pub fn count(map: &[u8]) -> u32 {
    map.iter().map(|byte| byte.count_ones()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_orders_differ_within_a_byte() {
        let (mut msb, mut lsb) = ([0; 2], [0; 2]);
        msb_first::set(&mut msb, 9, true);
        lsb_first::set(&mut lsb, 9, true);
        assert_eq!((msb, lsb), ([0, 0x40], [0, 0x02]));
        assert!(msb_first::get(&msb, 9) && lsb_first::get(&lsb, 9) && !msb_first::get(&msb, 99));
        msb_first::set(&mut msb, 9, false);
        msb_first::set(&mut msb, 99, true);
        assert_eq!((count(&msb), count(&lsb)), (0, 1));
    }
}

//! Asking for memory before it is needed.
#![allow(unsafe_code)]

/// Asks the processor to bring an element's cache line, and goes on at once. Outside the slice
/// nothing is asked for; on processors of which this does not know how, neither.
///
/// The map of a large device is far larger than any cache, and a move of a hundred pages touches a
/// hundred lines of it that are known beforehand: asked for together they come in the time of a
/// few.
#[inline(always)]
pub fn prefetch<T>(items: &[T], index: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(item) = items.get(index) {
        // SAFETY: the address is that of an element that is borrowed here, and a prefetch neither
        // reads nor writes it as far as the program can tell.
        unsafe {
            core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(std::ptr::from_ref(item).cast());
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (items, index);
}

#[cfg(test)]
mod tests {
    #[test]
    fn any_index_will_do() {
        let items = [1u64, 2, 3];
        for index in [0, 2, 3, usize::MAX] {
            super::prefetch(&items, index);
        }
        super::prefetch::<u8>(&[], 0);
    }
}

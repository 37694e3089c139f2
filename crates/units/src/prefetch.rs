//! Memory prefetching.
#![allow(unsafe_code)]

/// Asks the processor to load an element's cache line, without waiting. Does nothing outside the
/// slice, or on processors without support here.
///
/// The map of a large device far exceeds any cache, and moving a hundred pages touches a hundred of
/// its cache lines, known in advance: prefetched together, they arrive in the time of a few.
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

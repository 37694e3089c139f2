//! Counting work in the crate's own tests: the cost of an image, however hostile, must be about
//! proportional to its size, not to its square. Outside of tests nothing is counted.

/// Counts steps: names or fragments examined or moved.
#[cfg(not(test))]
#[inline]
pub(crate) const fn steps(_: usize) {}

#[cfg(test)]
pub(crate) use counted::{steps, steps_of};

#[cfg(test)]
mod counted {
    use std::cell::Cell;

    thread_local! {
        static STEPS: Cell<u64> = const { Cell::new(0) };
    }

    pub(crate) fn steps(count: usize) {
        STEPS.with(|steps| steps.set(steps.get() + count as u64));
    }

    /// The steps that a function takes on this thread.
    pub(crate) fn steps_of<T>(something: impl FnOnce() -> T) -> (T, u64) {
        let before = STEPS.with(Cell::get);
        let result = something();
        (result, STEPS.with(Cell::get) - before)
    }
}

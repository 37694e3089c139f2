//! Simulated time.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Simulated time in nanoseconds: a time since the start of the simulation, or a duration.
///
/// 64 bits hold 584 years. Arithmetic saturates, so that a hostile spec cannot overflow it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl Nanos {
    /// The start of the simulation, or an empty duration.
    pub const ZERO: Self = Self(0);

    /// A duration of whole microseconds.
    #[inline]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros.saturating_mul(1_000))
    }

    /// A duration of whole milliseconds.
    #[inline]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// A duration of whole seconds.
    #[inline]
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000_000))
    }

    /// The number of nanoseconds.
    #[inline]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The duration in seconds, with floating-point rounding.
    #[inline]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// `self - earlier`, or zero if `earlier` is later.
    #[inline]
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }

    /// The duration multiplied by `count`.
    #[inline]
    pub const fn times(self, count: u64) -> Self {
        Self(self.0.saturating_mul(count))
    }
}

impl Add for Nanos {
    type Output = Self;
    #[inline]
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Nanos {
    #[inline]
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Nanos {
    type Output = Self;
    /// Saturates at zero, as [`Nanos::since`] does.
    #[inline]
    fn sub(self, other: Self) -> Self {
        self.since(other)
    }
}

impl Sum for Nanos {
    fn sum<I: Iterator<Item = Self>>(spans: I) -> Self {
        spans.fold(Self::ZERO, Add::add)
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0..1_000 => write!(f, "{} ns", self.0),
            1_000..1_000_000 => write!(f, "{:.1} us", self.0 as f64 / 1e3),
            1_000_000..1_000_000_000 => write!(f, "{:.1} ms", self.0 as f64 / 1e6),
            _ => write!(f, "{:.2} s", self.as_secs_f64()),
        }
    }
}

/// The simulated clock of a stack; clones share the same time.
///
/// Devices only return when an operation ends; whichever component waits for it (a file system, a
/// driver, a host model) advances the clock with [`Clock::advance_to`]. A clock also knows the
/// calendar time of its start, so that time stamps on a medium come from it and never from the wall
/// clock.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    shared: Arc<ClockState>,
}

#[derive(Debug, Default)]
struct ClockState {
    now_ns: AtomicU64,
    epoch_unix_ns: AtomicU64,
}

impl Clock {
    /// A clock at time zero whose start is `epoch_unix_ns` nanoseconds after 1970-01-01T00:00:00Z.
    pub fn starting_at(epoch_unix_ns: u64) -> Self {
        let clock = Self::default();
        clock.shared.epoch_unix_ns.store(epoch_unix_ns, Ordering::Relaxed);
        clock
    }

    /// The current simulated time.
    #[inline]
    pub fn now(&self) -> Nanos {
        Nanos(self.shared.now_ns.load(Ordering::Acquire))
    }

    /// Advances the clock to `instant`; an earlier time leaves it unchanged.
    #[inline]
    pub fn advance_to(&self, instant: Nanos) {
        self.shared.now_ns.fetch_max(instant.0, Ordering::AcqRel);
    }

    /// Advances the clock by `span` and returns the new time.
    #[inline]
    pub fn advance_by(&self, span: Nanos) -> Nanos {
        let mut instant = self.now();
        instant += span;
        self.advance_to(instant);
        instant
    }

    /// Sets the calendar so that [`Clock::unix_ns`] now returns `unix_ns`; the simulated time does
    /// not change. For front ends, which stamp files with the host's time.
    pub fn set_unix_ns(&self, unix_ns: u64) {
        self.shared.epoch_unix_ns.store(unix_ns.saturating_sub(self.now().0), Ordering::Relaxed);
    }

    /// Calendar time in nanoseconds since 1970: the clock's start plus the simulated time.
    pub fn unix_ns(&self) -> u64 {
        self.shared.epoch_unix_ns.load(Ordering::Relaxed).saturating_add(self.now().0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_show_the_same_time_and_never_go_back() {
        let clock = Clock::starting_at(1_000);
        let other = clock.clone();
        clock.advance_to(Nanos(50));
        other.advance_to(Nanos(20));
        assert_eq!(other.now(), Nanos(50));
        assert_eq!(other.advance_by(Nanos(5)), Nanos(55));
        assert_eq!(clock.unix_ns(), 1_055);
        other.set_unix_ns(5_000);
        clock.advance_by(Nanos(7));
        assert_eq!((clock.now(), clock.unix_ns()), (Nanos(62), 5_007));
    }

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(Nanos(u64::MAX) + Nanos(1), Nanos(u64::MAX));
        assert_eq!(Nanos(1) - Nanos(2), Nanos::ZERO);
        assert_eq!(Nanos::from_secs(u64::MAX), Nanos(u64::MAX));
    }
}

//! Arrivals of an open loop: operations arrive at a given rate and do not wait for others.

use nandkit_units::Nanos;
use nandkit_units::random::Random;

use crate::error::SpecError;
use crate::parameters::choices;

choices! {
    /// How the times between two arrivals are distributed.
    pub enum Arrivals {
        /// All times are equal.
        Even = "even",
        /// Exponentially distributed: an arrival is equally likely at each instant.
        Poisson = "poisson",
    }
}

/// The rate of an open loop, as workloads' parameters have it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    pub workload: &'static str,
    /// Operations a second; 0: a closed loop.
    pub per_second: f64,
    pub arrivals: Arrivals,
    /// Operations of a burst; 0: no pauses.
    pub burst: u64,
    /// Milliseconds between the last arrival of a burst and the first of the next, on top of the
    /// time between any two.
    pub pause_ms: f64,
}

/// The longest time over which operations may arrive: a billion seconds, 31 years. Simulated time
/// ends after 584 years, and what follows the last arrival must fit, too.
const SPAN_S_MAX: f64 = 1e9;

impl Rate {
    /// Errors: this number of operations would arrive over a longer time than is simulated.
    pub fn check_span(&self, operations: u64) -> Result<(), SpecError> {
        if self.per_second == 0.0 {
            return Ok(());
        }
        let pauses = operations.checked_div(self.burst).unwrap_or(0);
        let span_s = operations as f64 / self.per_second + pauses as f64 * self.pause_ms / 1e3;
        if span_s <= SPAN_S_MAX {
            return Ok(());
        }
        let detail = format!(
            "{operations} operations would arrive over {span_s:.1e} seconds; expected at most {SPAN_S_MAX:.0e}, about 31 years: a higher rate, shorter pauses or fewer operations"
        );
        Err(SpecError::Conflict { workload: self.workload, detail })
    }

    /// Errors: only one of burst and pause is given; bursts, pauses or arrivals are given without a
    /// rate; a queue depth is given with a rate.
    pub fn check(&self, queue_depth: u64) -> Result<(), SpecError> {
        let conflict = |detail: &str| Err(SpecError::Conflict { workload: self.workload, detail: detail.to_string() });
        if (self.burst > 0) != (self.pause_ms > 0.0) {
            return conflict("burst and pause_ms go together: give both or none");
        }
        if self.burst > 0 && self.per_second == 0.0 {
            return conflict("burst and pause_ms need a rate");
        }
        if self.arrivals != Arrivals::Even && self.per_second == 0.0 {
            return conflict("arrivals need a rate, the operations of a second");
        }
        if self.per_second > 0.0 && queue_depth > 1 {
            return conflict("operations that arrive at a rate wait for no queue: give rate or queue_depth, not both");
        }
        Ok(())
    }

    /// The arrivals of the run with this seed; `None` for a closed loop.
    pub fn clock(&self, seed: u64) -> Option<ArrivalClock> {
        let clock = ArrivalClock {
            rate: *self,
            gap_ns: 1e9 / self.per_second,
            random: Random::new(seed, "arrivals"),
            operations: 0,
            last_ns: 0.0,
        };
        (self.per_second > 0.0).then_some(clock)
    }
}

/// The instants of arrivals, one after another.
#[derive(Clone, Debug)]
pub(crate) struct ArrivalClock {
    rate: Rate,
    gap_ns: f64,
    random: Random,
    operations: u64,
    /// Instant of the latest arrival in nanoseconds, pauses not counted.
    last_ns: f64,
}

impl ArrivalClock {
    /// Goes back to the start of a phase. The random sequence goes on, so that phases differ.
    pub fn restart(&mut self) {
        (self.operations, self.last_ns) = (0, 0.0);
    }

    /// The next arrival after the start of the phase.
    pub fn next(&mut self) -> Nanos {
        self.last_ns = match self.rate.arrivals {
            // A product and not a sum, so that rounding errors do not add up.
            Arrivals::Even => self.operations as f64 * self.gap_ns,
            // The fraction is below 1, and its logarithm finite.
            Arrivals::Poisson => self.last_ns - (1.0 - self.random.fraction()).ln() * self.gap_ns,
        };
        let bursts = self.operations.checked_div(self.rate.burst).unwrap_or(0);
        self.operations += 1;
        Nanos((self.last_ns + bursts as f64 * self.rate.pause_ms * 1e6) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(per_second: f64, arrivals: Arrivals) -> Rate {
        Rate { workload: "random", per_second, arrivals, burst: 0, pause_ms: 0.0 }
    }

    #[test]
    fn even_arrivals_keep_their_rate_and_pauses_come_between_bursts() {
        let mut clock = rate(3.0, Arrivals::Even).clock(1).unwrap();
        let last = (0..3_000_001).map(|_| clock.next().0).last();
        assert_eq!(last, Some(1_000_000_000_000_000));
        let bursts = Rate { burst: 2, pause_ms: 1.0, ..rate(1000.0, Arrivals::Even) };
        let mut clock = bursts.clock(1).unwrap();
        let arrivals: Vec<u64> = (0..5).map(|_| clock.next().0 / 1_000_000).collect();
        assert_eq!(arrivals, [0, 1, 3, 4, 6]);
        clock.restart();
        assert_eq!(clock.next(), Nanos::ZERO);
    }

    /// Mean and standard deviation of the gaps are both the mean gap, and no two seeds agree.
    #[test]
    fn poisson_arrivals_are_exponential() {
        let mut clock = rate(1000.0, Arrivals::Poisson).clock(5).unwrap();
        let arrivals: Vec<f64> = (0..200_001).map(|_| clock.next().0 as f64).collect();
        let gaps: Vec<f64> = arrivals.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let deviation = (gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64).sqrt();
        assert!((mean / 1e6 - 1.0).abs() < 0.01, "{mean}");
        assert!((deviation / 1e6 - 1.0).abs() < 0.02, "{deviation}");
        let mut other = rate(1000.0, Arrivals::Poisson).clock(6).unwrap();
        assert_ne!(arrivals.first(), Some(&(other.next().0 as f64)));
    }

    #[test]
    fn rates_that_contradict_themselves_are_refused() {
        let even = rate(10.0, Arrivals::Even);
        assert!(even.check(1).is_ok());
        assert!(even.check(2).unwrap_err().to_string().contains("rate or queue_depth"));
        assert!(Rate { burst: 1, ..even }.check(1).is_err());
        assert!(Rate { burst: 1, pause_ms: 1.0, per_second: 0.0, ..even }.check(1).is_err());
        assert!(rate(0.0, Arrivals::Poisson).clock(1).is_none());
    }

    #[test]
    fn arrivals_end_before_simulated_time_does() {
        assert!(rate(0.0, Arrivals::Even).check(4).is_ok());
        let lost = rate(0.0, Arrivals::Poisson).check(1).unwrap_err().to_string();
        assert!(lost.contains("arrivals need a rate"), "{lost}");
        assert!(rate(0.0, Arrivals::Even).check_span(u64::MAX).is_ok(), "a closed loop");
        assert!(rate(1e-6, Arrivals::Even).check_span(1000).is_ok());
        for (slow, operations) in [(rate(1e-9, Arrivals::Even), 2), (rate(1e-300, Arrivals::Poisson), 1)] {
            let error = slow.check_span(operations).unwrap_err().to_string();
            assert!(error.contains("expected at most 1e9"), "{error}");
        }
        let pauses = Rate { burst: 1, pause_ms: 1e9, ..rate(1000.0, Arrivals::Even) };
        assert!(pauses.check_span(900).is_ok() && pauses.check_span(20_000).is_err());
    }
}

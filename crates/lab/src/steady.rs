//! Windows of write amplification: whether they agree, and their mean.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use nandkit_record::{LayerValue, spread};
use nandkit_workload::Phase;

use crate::precondition::SteadyRule;

/// The change of the least-squares line through the values, from the first to the last.
fn drift(values: &[f64]) -> f64 {
    let middle = (values.len() as f64 - 1.0) / 2.0;
    let mean = spread::mean(values).unwrap_or(0.0);
    let (mut product, mut square) = (0.0, 0.0);
    for (index, value) in values.iter().enumerate() {
        let from_middle = index as f64 - middle;
        product += from_middle * (value - mean);
        square += from_middle * from_middle;
    }
    if square > 0.0 { product / square * 2.0 * middle } else { 0.0 }
}

/// Whether these windows agree by the rule; see [`SteadyRule`].
pub(crate) fn agree(rule: &SteadyRule, values: &[f64]) -> bool {
    let (Some(mean), Some(half_width)) = (spread::mean(values), spread::half_width_95(values)) else { return false };
    let allowed = rule.tolerance * mean;
    values.len() >= rule.windows as usize && drift(values).abs() <= allowed && half_width <= allowed
}

/// The windows of one phase.
#[derive(Clone, Debug, Default)]
pub(crate) struct Collected {
    /// The write amplification of each window.
    pub values: Vec<f64>,
    /// Whether the windows agreed in the end.
    pub agreed: bool,
    /// Bytes that the user had written, and that had been programmed, at the end of the last
    /// window.
    written: u64,
    programmed: u64,
}

impl Collected {
    /// Adds a window, and says whether the phase goes on. `last`: whether only the later half of
    /// the windows must agree, and at least as many as the rule asks for, instead of all of them.
    pub fn add(&mut self, rule: &SteadyRule, last: bool, (written, programmed): (u64, u64)) -> ControlFlow<()> {
        let user = (written - self.written).max(1);
        self.values.push(programmed.saturating_sub(self.programmed) as f64 / user as f64);
        (self.written, self.programmed) = (written, programmed);
        let count = self.values.len();
        // Only the later half counts, so that enough windows agree in the end even if they scatter
        // much, while windows of long ago drop out.
        let from = if last { (count / 2).min(count.saturating_sub(rule.windows as usize)) } else { 0 };
        self.agreed = agree(rule, self.values.get(from..).unwrap_or(&[]));
        let gives_up = count as f64 * rule.window >= rule.limit;
        if self.agreed || gives_up { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// The windows of a run with [`crate::Precondition::Steady`].
#[derive(Clone, Debug)]
pub(crate) struct Settling {
    pub rule: SteadyRule,
    pub window_bytes: u64,
    pub before: Collected,
    pub measured: Collected,
}

/// The windows of a phase while it runs.
pub(crate) struct InPhase<'a> {
    rule: SteadyRule,
    /// Before the measured phase only the last windows must agree.
    last: bool,
    collected: &'a mut Collected,
}

impl InPhase<'_> {
    /// Adds a window with what the user had written, and what had been programmed, at its end; says
    /// whether the phase goes on.
    pub fn add(&mut self, written: u64, programmed: u64) -> ControlFlow<()> {
        self.collected.add(&self.rule, self.last, (written, programmed))
    }
}

impl Settling {
    /// Begins on a device that holds `capacity` bytes for the host.
    pub fn new(rule: SteadyRule, capacity: u64) -> Self {
        let window_bytes = ((capacity as f64 * rule.window) as u64).max(1);
        Self { rule, window_bytes, before: Collected::default(), measured: Collected::default() }
    }

    /// Begins the windows of a phase; `programmed` bytes had been programmed before it.
    pub fn windows_of(&mut self, phase: Phase, programmed: u64) -> InPhase<'_> {
        let last = phase != Phase::Measure;
        let collected = if last { &mut self.before } else { &mut self.measured };
        *collected = Collected { programmed, ..Collected::default() };
        InPhase { rule: self.rule, last, collected }
    }

    /// The values for the record, under `layers.steady`.
    pub fn values(&self) -> BTreeMap<String, LayerValue> {
        let measured = &self.measured.values;
        let mean = spread::mean(measured).unwrap_or(f64::NAN);
        let half_width = spread::half_width_95(measured).unwrap_or(f64::NAN);
        let turnovers = |windows: &[f64]| LayerValue::level(windows.len() as f64 * self.rule.window);
        let settled = self.before.agreed && self.measured.agreed;
        [
            ("steady_settled", LayerValue::Count(settled.into())),
            ("steady_waf_mean", LayerValue::level(mean)),
            ("steady_waf_half_width_95", LayerValue::level(half_width)),
            ("steady_waf_drift", LayerValue::level(drift(measured))),
            ("steady_window_bytes", LayerValue::Count(self.window_bytes)),
            ("steady_turnovers_before", turnovers(&self.before.values)),
            ("steady_turnovers_measured", turnovers(measured)),
            ("steady_windows_before", LayerValue::series(self.before.values.clone())),
            ("steady_windows_measured", LayerValue::series(measured.clone())),
        ]
        .map(|(name, value)| (name.to_string(), value))
        .into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: SteadyRule = SteadyRule { window: 0.125, windows: 8, tolerance: 0.01, limit: 10.0 };

    #[test]
    fn windows_agree_when_they_neither_drift_nor_scatter() {
        let noise = [0.0, 0.004, -0.003, 0.002, -0.004, 0.003, 0.001, -0.002];
        let windows = |drift: f64, scatter: f64| -> Vec<f64> {
            noise.iter().enumerate().map(|(n, noise)| 4.0 * (1.0 + drift * n as f64 / 7.0 + scatter * noise)).collect()
        };
        assert!(agree(&RULE, &windows(0.0, 1.0)));
        assert!(!agree(&RULE, &windows(0.0, 1.0)[1..]), "seven are too few");
        assert!(!agree(&RULE, &windows(0.02, 0.0)) && !agree(&RULE, &windows(-0.02, 0.0)), "drifts");
        assert!(!agree(&RULE, &windows(0.0, 10.0)), "scatters");
        assert!((drift(&windows(0.02, 0.0)) - 0.08).abs() < 1e-12);
    }

    /// Programmed bytes at the ends of windows of 1000 written bytes, each with this write
    /// amplification.
    fn fed(rule: &SteadyRule, last: bool, waf: impl Fn(usize) -> f64) -> Collected {
        let mut collected = Collected { programmed: 500, ..Collected::default() };
        let mut programmed = 500;
        for window in 0.. {
            programmed += (waf(window) * 1000.0) as u64;
            if collected.add(rule, last, (1000 * (window as u64 + 1), programmed)) == ControlFlow::Break(()) {
                break;
            }
        }
        collected
    }

    #[test]
    fn what_comes_before_it_settles_does_not_count() {
        let settles = |window: usize| if window < 20 { 9.0 - 0.25 * window as f64 } else { 4.0 };
        let before = fed(&RULE, true, settles);
        assert!(before.agreed && (20..48).contains(&before.values.len()), "{before:?}");
        let all = fed(&SteadyRule { limit: 1000.0, ..RULE }, false, settles);
        assert!(all.values.len() > 500 || !all.agreed, "the beginning counts: {}", all.values.len());
    }

    /// Windows that scatter by a quarter of their mean: eight of them never agree to a hundredth,
    /// some hundred do.
    #[test]
    fn windows_that_scatter_take_longer() {
        let swings = |window: usize| if window.is_multiple_of(2) { 3.5 } else { 4.5 };
        let rule = SteadyRule { limit: 1000.0, tolerance: 0.03, ..RULE };
        for last in [true, false] {
            let collected = fed(&rule, last, swings);
            assert!(collected.agreed && (50..400).contains(&collected.values.len()), "{}", collected.values.len());
        }
    }

    #[test]
    fn what_never_settles_gives_up() {
        let swings = |window: usize| if window.is_multiple_of(2) { 1.0 } else { 7.0 };
        let collected = fed(&RULE, true, swings);
        assert!(!collected.agreed && collected.values.len() == 80);
        let settling = Settling {
            rule: RULE,
            window_bytes: 1000,
            before: collected.clone(),
            measured: fed(&RULE, false, |_| 4.0),
        };
        let values = settling.values();
        assert_eq!(values["steady_settled"], LayerValue::Count(0));
        assert_eq!(values["steady_waf_mean"], LayerValue::Level(4.0));
        assert_eq!(values["steady_turnovers_before"], LayerValue::Level(10.0));
    }
}

//! Snapshots of the counters of all layers, and the figures of the time between two snapshots.

use std::collections::BTreeMap;

use nandkit_block::wrap::DeviceSnapshot;
use nandkit_flash::wrap::FlashSnapshot;
use nandkit_record::{ByCause, ErasesPerBlock, Figures, Latency, LayerValue, Layers};
use nandkit_stack::{Stack, Watched};
use nandkit_units::{Area, Cause, Clock, Nanos, StatisticValue, Statistics};
use nandkit_workload::{DriverReport, LatencyHistogram, PhaseReport};

/// The parts of a stack that can be watched while its top is in use.
pub(crate) struct Watch<'a> {
    pub clock: &'a Clock,
    pub watched: &'a Watched,
}

impl Watch<'_> {
    pub(crate) fn snapshot(&self) -> Snapshot {
        let mut layers = Vec::with_capacity(self.watched.layers.len());
        for (name, statistics) in &self.watched.layers {
            layers.push((name.clone(), collected(&**statistics)));
        }
        let flash = self.watched.flash.as_ref().map(|counters| counters.snapshot());
        let block = self.watched.block.as_ref().map(|counters| counters.snapshot());
        Snapshot { now: self.clock.now(), flash, block, layers }
    }
}

/// The figures of everything that a stack's device did since the stack was started, its formatting
/// included: device time, bytes by cause, erases. What only a workload knows is 0.
pub fn figures_of(stack: &Stack) -> Figures {
    let mut figures = Snapshot::take(stack).since_the_start(stack.started);
    figures.derive();
    figures
}

type Values = Vec<(&'static str, StatisticValue)>;

fn collected(statistics: &dyn Statistics) -> Values {
    let mut values = Vec::new();
    statistics.collect(&mut |name, value| values.push((name, value)));
    values
}

/// The counters of all layers at one moment.
#[derive(Clone)]
pub(crate) struct Snapshot {
    now: Nanos,
    flash: Option<FlashSnapshot>,
    block: Option<DeviceSnapshot>,
    layers: Vec<(String, Values)>,
}

impl Snapshot {
    pub(crate) fn take(stack: &Stack) -> Self {
        Watch { clock: &stack.clock, watched: &stack.watched }.snapshot()
    }

    /// The figures of everything since the stack was started.
    pub(crate) fn since_the_start(&self, started: Nanos) -> Figures {
        figures(self.flash.as_ref(), self.now - started)
    }

    /// The figures since an earlier snapshot of the same stack, without what the workload knows.
    pub(crate) fn since(&self, earlier: &Self) -> Figures {
        let flash = match (&self.flash, &earlier.flash) {
            (Some(now), Some(earlier)) => Some(now - earlier),
            _ => None,
        };
        figures(flash.as_ref(), self.now - earlier.now)
    }
}

fn figures(flash: Option<&FlashSnapshot>, elapsed: Nanos) -> Figures {
    let mut figures = Figures { elapsed_ns: elapsed.get(), ..Figures::default() };
    let Some(flash) = flash else {
        figures.derive();
        return figures;
    };
    let by_cause = |value: &dyn Fn(Cause) -> u64| {
        ByCause(Cause::ALL.into_iter().map(|cause| (cause.name().to_string(), value(cause))).collect())
    };
    let total = flash.total();
    figures.bytes_programmed = total.bytes_programmed;
    figures.bytes_programmed_by_cause = by_cause(&|cause| flash.cause(cause).bytes_programmed);
    figures.bytes_programmed_by_area = [("main", Area::Main), ("metadata", Area::Metadata)]
        .into_iter()
        .map(|(name, area)| (name.to_string(), flash.area(area).bytes_programmed))
        .collect();
    figures.erases = total.erases;
    figures.erases_per_block = ErasesPerBlock::of(flash.erases_per_block.iter().map(|n| u64::from(*n)).collect());
    figures.device_time_ns = total.busy_ns.saturating_add(flash.failed_ns);
    figures.device_time_ns_by_cause = by_cause(&|cause| flash.cause(cause).busy_ns);
    if flash.failed_ns > 0 {
        // Failed operations carry no cause in the counters, and yet the sum over the map must be
        // the total.
        figures.device_time_ns_by_cause.0.insert("failed_operations".to_string(), flash.failed_ns);
    }
    figures.derive();
    figures
}

pub(crate) fn latency(histogram: &LatencyHistogram) -> Latency {
    Latency {
        count: histogram.count(),
        p50: histogram.quantile(0.5).get(),
        p99: histogram.quantile(0.99).get(),
        p999: histogram.quantile(0.999).get(),
        max: histogram.max().get(),
    }
}

/// Adds what the workload's driver counted in the phase.
pub(crate) fn add_report(figures: &mut Figures, report: Option<&PhaseReport>) {
    let Some(report) = report else { return };
    figures.user_bytes_written = report.user_bytes_written;
    figures.user_bytes_read = report.user_bytes_read;
    for (kind, histogram) in report.latencies() {
        figures.latency_ns.insert(kind.name().to_string(), latency(histogram));
    }
    figures.derive();
}

/// What each layer counted between two snapshots: counts and distributions are subtracted, levels
/// and lists of events are the later ones.
pub(crate) fn layers(before: &Snapshot, after: &Snapshot) -> Layers {
    let mut layers = Layers::new();
    for ((name, values), (_, earlier)) in after.layers.iter().zip(&before.layers) {
        layers.insert(name.clone(), between(earlier, values.clone()));
    }
    // Quantiles and spreads cannot be subtracted: they are computed from what can.
    if let (Some(before), Some(after)) = (&before.flash, &after.flash) {
        layers.insert("flash".to_string(), between(&[], collected(&(after - before))));
    }
    if let (Some(before), Some(after)) = (&before.block, &after.block) {
        layers.insert("block".to_string(), between(&[], collected(&(after - before))));
    }
    layers
}

fn between(before: &[(&'static str, StatisticValue)], after: Values) -> BTreeMap<String, LayerValue> {
    let value = |key, value| match (value, before.iter().find(|(earlier, _)| *earlier == key).map(|(_, value)| value)) {
        (StatisticValue::Count(now), Some(StatisticValue::Count(earlier))) => {
            LayerValue::Count(now.saturating_sub(*earlier))
        }
        (StatisticValue::Series(mut now), Some(StatisticValue::Series(earlier))) => {
            now.iter_mut().zip(earlier).for_each(|(now, earlier)| *now = (*now - earlier).max(0.0));
            LayerValue::series(now)
        }
        (StatisticValue::Count(count), _) => LayerValue::Count(count),
        (StatisticValue::Level(level), _) => LayerValue::level(level),
        (StatisticValue::Series(values) | StatisticValue::Events(values), _) => LayerValue::series(values),
    };
    after.into_iter().map(|(key, now)| (key.to_string(), value(key, now))).collect()
}

/// Counts of what was compared with the written data, for the record.
pub(crate) fn verification(report: &DriverReport) -> BTreeMap<String, LayerValue> {
    let at_end = report.verified_at_end.map_or(LayerValue::Absent, LayerValue::Count);
    let mut counted = BTreeMap::from([
        ("verified_bytes".to_string(), LayerValue::Count(report.verified_bytes)),
        ("verified_at_end".to_string(), at_end),
    ]);
    if let Some(skipped) = report.skipped_calls {
        counted.insert("skipped_calls".to_string(), LayerValue::Count(skipped));
    }
    counted
}

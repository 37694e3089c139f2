//! Counting every request.

use std::ops::Sub;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use nandkit_units::{Cause, Content, Context, Done, Lba, Payload, Pieces, ReadInto, StatisticValue, Statistics};

use super::histogram::{Histogram, HistogramSnapshot};
use super::{forward_extents, no_capability, offer_capabilities, remap_limits};
use crate::{BlockDevice, BlockGeometry, Operation, Remap, RemapLimits, Result, Trim};

/// The kinds of requests that are counted separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "the names say it")]
pub enum RequestKind {
    Read,
    Write,
    Trim,
    Flush,
    Remap,
}

impl RequestKind {
    /// All kinds in the order of their declaration.
    pub const ALL: [Self; 5] = [Self::Read, Self::Write, Self::Trim, Self::Flush, Self::Remap];
}

const KINDS: usize = RequestKind::ALL.len();

/// Successful requests of one kind and cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestCounters {
    /// Requests of this kind.
    pub requests: u64,
    /// Bytes read, written, trimmed or remapped.
    pub bytes: u64,
}

#[derive(Debug, Default)]
struct Row {
    requests: AtomicU64,
    bytes: AtomicU64,
}

/// The counters of one block device, shared with its observers.
#[derive(Debug, Default)]
pub struct DeviceCounters {
    rows: [[Row; Cause::COUNT]; KINDS],
    failures: AtomicU64,
    sizes: [Histogram; KINDS],
    latencies: [Histogram; KINDS],
}

impl DeviceCounters {
    #[inline]
    fn count(&self, kind: RequestKind, context: &Context, bytes: u64, result: &Result<Done>) {
        let Ok(done) = result else {
            self.failures.fetch_add(1, Relaxed);
            return;
        };
        let row = &self.rows[kind as usize][context.cause.index()];
        row.requests.fetch_add(1, Relaxed);
        row.bytes.fetch_add(bytes, Relaxed);
        self.sizes[kind as usize].record(bytes);
        self.latencies[kind as usize].record(done.completed.since(context.issued).0);
    }

    /// The current counters.
    pub fn snapshot(&self) -> DeviceSnapshot {
        let mut counters = [[RequestCounters::default(); Cause::COUNT]; KINDS];
        for (into, rows) in counters.iter_mut().zip(&self.rows) {
            for (into, row) in into.iter_mut().zip(rows) {
                *into = RequestCounters { requests: row.requests.load(Relaxed), bytes: row.bytes.load(Relaxed) };
            }
        }
        DeviceSnapshot {
            counters,
            failures: self.failures.load(Relaxed),
            sizes: std::array::from_fn(|kind| self.sizes[kind].snapshot()),
            latencies: std::array::from_fn(|kind| self.latencies[kind].snapshot()),
        }
    }
}

/// The counters of a device at one time, or between two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceSnapshot {
    counters: [[RequestCounters; Cause::COUNT]; KINDS],
    /// Failed requests of any kind.
    pub failures: u64,
    sizes: [HistogramSnapshot; KINDS],
    latencies: [HistogramSnapshot; KINDS],
}

impl DeviceSnapshot {
    /// Requests of one kind and cause.
    pub const fn of(&self, kind: RequestKind, cause: Cause) -> RequestCounters {
        self.counters[kind as usize][cause.index()]
    }

    /// Requests of one kind, over all causes.
    pub fn total(&self, kind: RequestKind) -> RequestCounters {
        self.counters[kind as usize].iter().fold(RequestCounters::default(), |sum, row| RequestCounters {
            requests: sum.requests + row.requests,
            bytes: sum.bytes + row.bytes,
        })
    }

    /// Sizes of the requests of one kind, in bytes.
    pub const fn sizes(&self, kind: RequestKind) -> &HistogramSnapshot {
        &self.sizes[kind as usize]
    }

    /// Times from issue to completion of the requests of one kind, in nanoseconds.
    pub const fn latencies_ns(&self, kind: RequestKind) -> &HistogramSnapshot {
        &self.latencies[kind as usize]
    }
}

impl Sub for &DeviceSnapshot {
    type Output = DeviceSnapshot;
    /// The counts since `earlier`.
    fn sub(self, earlier: Self) -> DeviceSnapshot {
        let mut counters = self.counters;
        for (rows, earlier) in counters.iter_mut().zip(&earlier.counters) {
            for (row, earlier) in rows.iter_mut().zip(earlier) {
                row.requests = row.requests.saturating_sub(earlier.requests);
                row.bytes = row.bytes.saturating_sub(earlier.bytes);
            }
        }
        DeviceSnapshot {
            counters,
            failures: self.failures.saturating_sub(earlier.failures),
            sizes: std::array::from_fn(|kind| &self.sizes[kind] - &earlier.sizes[kind]),
            latencies: std::array::from_fn(|kind| &self.latencies[kind] - &earlier.latencies[kind]),
        }
    }
}

/// Names of counts per cause of a kind, in the order of [`Cause::ALL`].
macro_rules! names {
    ($kind:literal, $verb:literal) => {
        names!($kind, $verb; "user_data", "metadata", "cleaning", "checkpoint", "wear_levelling", "mapping", "recovery", "format")
    };
    ($kind:literal, $verb:literal; $($cause:literal),*) => {
        [$((concat!("device_", $kind, "_", $cause), concat!("device_", $verb, "_", $cause, "_bytes"))),*]
    };
}

const NAMES: [[(&str, &str); Cause::COUNT]; KINDS] = [
    names!("reads", "read"),
    names!("writes", "written"),
    names!("trims", "trimmed"),
    names!("flushes", "flushed"),
    names!("remaps", "remapped"),
];

const SIZE_NAMES: [&str; KINDS] = [
    "device_read_sizes_by_power_of_two",
    "device_write_sizes_by_power_of_two",
    "device_trim_sizes_by_power_of_two",
    "device_flush_sizes_by_power_of_two",
    "device_remap_sizes_by_power_of_two",
];

const LATENCY_NAMES: [[&str; 4]; KINDS] = [
    [
        "device_read_latency_p50_ns",
        "device_read_latency_p99_ns",
        "device_read_latency_p999_ns",
        "device_read_latency_max_ns",
    ],
    [
        "device_write_latency_p50_ns",
        "device_write_latency_p99_ns",
        "device_write_latency_p999_ns",
        "device_write_latency_max_ns",
    ],
    [
        "device_trim_latency_p50_ns",
        "device_trim_latency_p99_ns",
        "device_trim_latency_p999_ns",
        "device_trim_latency_max_ns",
    ],
    [
        "device_flush_latency_p50_ns",
        "device_flush_latency_p99_ns",
        "device_flush_latency_p999_ns",
        "device_flush_latency_max_ns",
    ],
    [
        "device_remap_latency_p50_ns",
        "device_remap_latency_p99_ns",
        "device_remap_latency_p999_ns",
        "device_remap_latency_max_ns",
    ],
];

impl Statistics for DeviceCounters {
    fn collect(&self, sink: &mut dyn FnMut(&'static str, StatisticValue)) {
        self.snapshot().collect(sink);
    }
}

impl Statistics for DeviceSnapshot {
    fn collect(&self, sink: &mut dyn FnMut(&'static str, StatisticValue)) {
        for kind in RequestKind::ALL {
            for (cause, (requests, bytes)) in Cause::ALL.into_iter().zip(NAMES[kind as usize]) {
                let counters = self.of(kind, cause);
                sink(requests, StatisticValue::Count(counters.requests));
                if kind != RequestKind::Flush {
                    sink(bytes, StatisticValue::Count(counters.bytes));
                }
            }
            if kind != RequestKind::Flush {
                let sizes = self.sizes(kind).by_power_of_two().into_iter().map(|count| count as f64).collect();
                sink(SIZE_NAMES[kind as usize], StatisticValue::Series(sizes));
            }
            let latencies = self.latencies_ns(kind);
            let values = [0.5, 0.99, 0.999].map(|part| latencies.quantile(part));
            let values = values.into_iter().chain([latencies.max()]);
            for (name, value) in LATENCY_NAMES[kind as usize].into_iter().zip(values) {
                sink(name, StatisticValue::Level(value as f64));
            }
        }
        sink("device_failures", StatisticValue::Count(self.failures));
    }
}

/// A block device that counts requests, their sizes and latencies. Cost: about 20 ns per request.
#[derive(Debug)]
pub struct StatsDevice<D> {
    inner: D,
    counters: Arc<DeviceCounters>,
    remap_limits: RemapLimits,
}

impl<D: BlockDevice> StatsDevice<D> {
    /// Counts the requests to `inner`, from zero.
    pub fn new(mut inner: D) -> Self {
        let remap_limits = remap_limits(&mut inner);
        Self { inner, counters: Arc::default(), remap_limits }
    }

    /// The live counters, readable while the device is in use.
    pub const fn counters(&self) -> &Arc<DeviceCounters> {
        &self.counters
    }

    /// The current counters.
    pub fn snapshot(&self) -> DeviceSnapshot {
        self.counters.snapshot()
    }

    /// The device below.
    pub const fn inner(&self) -> &D {
        &self.inner
    }

    /// The device below; requests made directly to it are not counted.
    pub const fn inner_mut(&mut self) -> &mut D {
        &mut self.inner
    }

    /// Unwraps the device below.
    pub fn into_inner(self) -> D {
        self.inner
    }
}

impl<D: BlockDevice> Statistics for StatsDevice<D> {
    fn collect(&self, sink: &mut dyn FnMut(&'static str, StatisticValue)) {
        self.counters.collect(sink);
    }
}

impl<D: BlockDevice> BlockDevice for StatsDevice<D> {
    #[inline]
    fn geometry(&self) -> &BlockGeometry {
        self.inner.geometry()
    }

    #[inline]
    fn read(&self, context: &Context, at: Lba, into: ReadInto<'_>) -> Result<Done> {
        let bytes = into.len() as u64;
        let result = self.inner.read(context, at, into);
        self.counters.count(RequestKind::Read, context, bytes, &result);
        result
    }

    #[inline]
    fn write(&mut self, context: &Context, at: Lba, data: Payload<'_>) -> Result<Done> {
        let bytes = data.len() as u64;
        let result = self.inner.write(context, at, data);
        self.counters.count(RequestKind::Write, context, bytes, &result);
        result
    }

    fn read_parts(&self, context: &Context, at: Lba, unit: u32, into: &mut [Content]) -> Result<Done> {
        let bytes = u64::from(unit).saturating_mul(into.len() as u64);
        let result = self.inner.read_parts(context, at, unit, into);
        self.counters.count(RequestKind::Read, context, bytes, &result);
        result
    }

    fn write_parts(&mut self, context: &Context, at: Lba, parts: &[Payload<'_>]) -> Result<Done> {
        let result = self.inner.write_parts(context, at, parts);
        self.counters.count(RequestKind::Write, context, Pieces::total(parts) as u64, &result);
        result
    }

    /// Counted as one write, even if the device below implements it as a write and a flush.
    fn write_durable(&mut self, context: &Context, at: Lba, data: Payload<'_>) -> Result<Done> {
        let result = self.inner.write_durable(context, at, data);
        self.counters.count(RequestKind::Write, context, data.len() as u64, &result);
        result
    }

    fn expect_write(&mut self, at: Lba) {
        self.inner.expect_write(at);
    }

    fn flush(&mut self, context: &Context) -> Result<Done> {
        let result = self.inner.flush(context);
        self.counters.count(RequestKind::Flush, context, 0, &result);
        result
    }

    forward_extents!();

    offer_capabilities!();
}

impl<D: BlockDevice> Trim for StatsDevice<D> {
    fn trim(&mut self, context: &Context, at: Lba, sectors: u64) -> Result<Done> {
        let bytes = sectors.saturating_mul(u64::from(self.inner.geometry().sector_size));
        let result = match self.inner.trim() {
            Some(trim) => trim.trim(context, at, sectors),
            None => Err(no_capability(Operation::Trim)),
        };
        self.counters.count(RequestKind::Trim, context, bytes, &result);
        result
    }
}

impl<D: BlockDevice> Remap for StatsDevice<D> {
    fn limits(&self) -> RemapLimits {
        self.remap_limits
    }

    fn share(&mut self, context: &Context, pairs: &[(Lba, Lba)]) -> Result<Done> {
        let bytes = pairs.len() as u64 * u64::from(self.remap_limits.unit);
        let result = match self.inner.remap() {
            Some(remap) => remap.share(context, pairs),
            None => Err(no_capability(Operation::Remap)),
        };
        self.counters.count(RequestKind::Remap, context, bytes, &result);
        result
    }

    fn remap_move(&mut self, context: &Context, pairs: &[(Lba, Lba)]) -> Result<Done> {
        let bytes = pairs.len() as u64 * u64::from(self.remap_limits.unit);
        let result = match self.inner.remap() {
            Some(remap) => remap.remap_move(context, pairs),
            None => Err(no_capability(Operation::Remap)),
        };
        self.counters.count(RequestKind::Remap, context, bytes, &result);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RamDevice, ServiceTime};
    use nandkit_units::Nanos;

    #[test]
    fn names_follow_causes_and_values_follow_requests() {
        for names in NAMES {
            for (cause, (requests, bytes)) in Cause::ALL.into_iter().zip(names) {
                assert!(requests.ends_with(cause.name()) && bytes.ends_with(&format!("{}_bytes", cause.name())));
            }
        }
        let service = ServiceTime { per_request: Nanos(1000), per_byte_ps: 0 };
        let mut device = StatsDevice::new(RamDevice::with_sectors(512, 64).unwrap().with_service_time(service));
        let context = Context::default().for_cause(Cause::Metadata);
        device.write(&context, Lba(0), Payload::Bytes(&[1; 4096])).unwrap();
        let fill = device.snapshot();
        device.write(&context, Lba(8), Payload::Bytes(&[1; 512])).unwrap();
        Trim::trim(&mut device, &context, Lba(0), 8).unwrap();
        device.write(&context, Lba(64), Payload::Bytes(&[1; 512])).unwrap_err();
        let measured = &device.snapshot() - &fill;
        let writes = measured.of(RequestKind::Write, Cause::Metadata);
        assert_eq!(writes, RequestCounters { requests: 1, bytes: 512 });
        assert_eq!(measured.total(RequestKind::Trim), RequestCounters { requests: 1, bytes: 4096 });
        assert_eq!((measured.failures, measured.sizes(RequestKind::Write).max()), (1, 543));
        assert_eq!(fill.latencies_ns(RequestKind::Write).max(), 1000);
        let mut values = std::collections::BTreeMap::new();
        device.collect(&mut |name, value| assert!(values.insert(name, value).is_none(), "{name} twice"));
        assert_eq!(values["device_written_metadata_bytes"], StatisticValue::Count(4608));
    }
}

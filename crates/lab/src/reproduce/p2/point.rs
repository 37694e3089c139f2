//! Finds P2's runs among records, and compares these runs.

use nandkit_record::{LayerValue, RunRecord};
use serde_json::Value;

use super::super::p4::point::Spread;
use super::plan::Setting;

/// A record with what distinguishes it within P2.
#[derive(Clone, Debug)]
pub struct Point<'a> {
    /// The pattern.
    pub pattern: &'a str,
    /// The number of files.
    pub files: u64,
    /// Stale records of each block when the overwrites began.
    pub stale: u64,
    /// The collector, with its options; for FAT the layers, as in [`super::plan::LAYERS`].
    pub collector: String,
    /// The separation, with its options; empty for FAT.
    pub separation: &'a str,
    /// The whole record.
    pub record: &'a RunRecord,
}

/// The points that records stand for; records of anything else are left out.
pub fn read(records: &[RunRecord]) -> Vec<Point<'_>> {
    records.iter().filter_map(point).collect()
}

fn point(record: &RunRecord) -> Option<Point<'_>> {
    let text = |path: &str| record.spec.pointer(path).and_then(Value::as_str);
    let number = |path: &str| record.spec.pointer(path).and_then(Value::as_u64);
    if text("/workload/kind")? != "overwrite" {
        return None;
    }
    let (collector, separation) = match text("/stack/fs/kind")? {
        "jffs2" => (text("/stack/fs/victim")?.to_string(), text("/stack/fs/separation")?),
        "fat" => {
            let cached = if number("/stack/fs/cache_sectors")? > 0 { " | cached" } else { "" };
            (format!("fat | {}{cached}", text("/stack/ftl/kind")?), "")
        }
        _ => return None,
    };
    Some(Point {
        pattern: text("/workload/pattern")?,
        files: number("/workload/files")?,
        stale: number("/workload/stale")?,
        collector,
        separation,
        record,
    })
}

impl Point<'_> {
    /// User bytes in 10^6 per second of simulated time.
    pub fn speed(&self) -> f64 {
        self.record.figures.write_mb_per_s.unwrap_or(0.0)
    }

    /// Erases per block of the device.
    pub fn erases(&self) -> f64 {
        let blocks = self.record.spec.pointer("/stack/device/geometry/blocks").and_then(Value::as_u64);
        self.record.figures.erases as f64 / blocks.unwrap_or(1).max(1) as f64
    }

    /// Write amplification.
    pub fn amplification(&self) -> f64 {
        self.record.figures.waf.unwrap_or(0.0)
    }

    /// Blocks of the device that were never erased.
    pub fn never(&self) -> f64 {
        self.record.figures.erases_per_block.never as f64
    }

    /// Simulated nanoseconds.
    pub fn elapsed_ns(&self) -> f64 {
        self.record.figures.elapsed_ns as f64
    }

    /// User writes.
    pub fn writes(&self) -> f64 {
        self.record.figures.latency_ns.get("write").map_or(0.0, |latency| latency.count as f64)
    }

    /// A count of the file system; 0 where it has none of this name.
    pub fn count(&self, name: &str) -> f64 {
        let fs = self.record.layers.get("fs");
        fs.and_then(|fs| fs.get(name)).and_then(LayerValue::as_f64).unwrap_or(0.0)
    }

    /// A flow table of the file system, row by row: a row for each region before and one for first
    /// writes, a column for each region after.
    pub fn flows(&self, name: &str) -> Option<&[f64]> {
        match self.record.layers.get("fs")?.get(name)? {
            LayerValue::Series(series) => Some(series),
            _ => None,
        }
    }
}

/// A collector with a separation.
pub type Scheme<'s> = (&'s str, &'s str);

/// Points looked at in one setting.
#[derive(Clone, Copy)]
pub struct View<'a, 'b> {
    /// All points.
    pub points: &'b [Point<'a>],
    /// The setting.
    pub setting: Setting,
}

impl<'a, 'b> View<'a, 'b> {
    /// The points of a setting.
    pub fn new(points: &'b [Point<'a>], setting: &Setting) -> Self {
        Self { points, setting: *setting }
    }

    /// The runs of one scheme, one for each seed.
    pub fn of(self, scheme: Scheme<'b>) -> impl Iterator<Item = &'b Point<'a>> {
        self.points.iter().filter(move |point| {
            point.pattern == self.setting.pattern
                && point.files == self.setting.fill.files
                && point.stale == self.setting.stale()
                && point.collector == scheme.0
                && point.separation == scheme.1
        })
    }

    /// A figure over the seeds.
    pub fn figure(self, scheme: Scheme<'b>, of: impl Fn(&Point<'a>) -> f64) -> Option<Spread> {
        Spread::of(self.of(scheme).map(of))
    }

    /// A figure of one scheme divided by that of another, seed by seed.
    pub fn ratio(self, scheme: Scheme<'b>, base: Scheme<'b>, of: impl Fn(&Point<'a>) -> f64) -> Option<Spread> {
        self.ratio_to(self, scheme, base, of)
    }

    /// A figure of a scheme in this view divided by that of another scheme in another view, seed by
    /// seed.
    pub fn ratio_to(
        self,
        there: View<'a, 'b>,
        scheme: Scheme<'b>,
        base: Scheme<'b>,
        of: impl Fn(&Point<'a>) -> f64,
    ) -> Option<Spread> {
        let pairs = self.of(scheme).filter_map(|point| {
            let other = there.of(base).find(|other| other.record.seed == point.record.seed)?;
            let (mine, other) = (of(point), of(other));
            (other > 0.0).then_some(mine / other)
        });
        Spread::of(pairs)
    }

    /// What was measured of a scheme, for people.
    pub fn row(self, scheme: Scheme<'b>) -> Option<Value> {
        Some(serde_json::json!({
            "mb_per_s": self.figure(scheme, Point::speed)?.to_json(),
            "erases_per_block": self.figure(scheme, Point::erases)?.to_json(),
            "write_amplification": self.figure(scheme, Point::amplification)?.to_json(),
            "never_erased": self.figure(scheme, Point::never)?.to_json(),
        }))
    }
}

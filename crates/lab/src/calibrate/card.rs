//! Makes a card of measured times.

use std::collections::BTreeMap;

use nandkit_block::card::{CardGeometry, CardSpec, CardTiming, Curve, CurveSpec, OpenUnitSpec};
use nandkit_units::format_bytes;

use super::{Calibration, Direction, Placing, RequestTime};
use crate::LabError;

/// A card made of measured times.
#[derive(Clone, Debug, PartialEq)]
pub struct CalibratedCard {
    /// The card, with a source for each figure.
    pub spec: CardSpec,
    /// Number of points that were moved, because a larger request took less time than a smaller
    /// one.
    pub moved: usize,
}

/// The time of closing a whole unit. A write anywhere on the device takes longer than a write into
/// an open unit, because the device copies the rest of the unit. The result is the median over the
/// sizes up to a quarter of a unit; 0 if it is too small beside the writes themselves.
pub(super) fn merge_ns(calibration: &Calibration) -> u64 {
    let unit = calibration.unit.bytes;
    let points = |placing| calibration.series(Direction::Write, placing).map_or(&[][..], |series| &series.points);
    let inside: BTreeMap<u64, &RequestTime> =
        points(Placing::InUnit).iter().map(|point| (point.bytes, point)).collect();
    let mut estimates: Vec<(u64, u64)> = points(Placing::Spread)
        .iter()
        .filter(|spread| spread.bytes <= unit / 4)
        .filter_map(|spread| {
            let closing = u128::from(spread.mean_ns.saturating_sub(inside.get(&spread.bytes)?.mean_ns));
            let whole = closing * u128::from(unit) / u128::from(unit - spread.bytes);
            Some((u64::try_from(whole).unwrap_or(u64::MAX), spread.mean_ns))
        })
        .collect();
    estimates.sort_unstable();
    match estimates.get(estimates.len() / 2) {
        Some((merge_ns, write_ns)) if *merge_ns > write_ns / 50 => *merge_ns,
        _ => 0,
    }
}

impl Calibration {
    /// The card with these times. Errors: [`LabError::Input`] if no writes were measured, or if no
    /// card can have these times.
    pub fn card(&self, name: &str, title: &str) -> Result<CalibratedCard, LabError> {
        let Some(open) = &self.open_units else {
            let detail = "a card file needs the times of writes, and nothing was written";
            return Err(LabError::Input(detail.to_string()));
        };
        let mut moved = 0;
        let mut curve = |points: Vec<RequestTime>| {
            let points: Vec<_> = points.into_iter().map(|point| (point.bytes, point.mean_ns.max(1))).collect();
            let (curve, of_it) = Curve::monotone(&points);
            moved += of_it;
            curve
        };
        let series = |direction, placing| self.series(direction, placing).map_or(Vec::new(), |s| s.points.clone());
        let curves = CurveSpec {
            read_sequential: curve(series(Direction::Read, Placing::Sequential)),
            read_random: curve(series(Direction::Read, Placing::Spread)),
            write_sequential: curve(series(Direction::Write, Placing::Sequential)),
            write_random: curve(self.random_writes()),
        };
        let spec = CardSpec {
            name: name.to_string(),
            title: title.to_string(),
            geometry: CardGeometry {
                capacity: self.shape.capacity,
                sector_size: self.shape.sector_size,
                page_size: self.shape.page_size.max(self.shape.sector_size).next_power_of_two().min(1 << 20),
            },
            curves,
            timing: CardTiming::default(),
            open_units: OpenUnitSpec {
                size: self.unit.bytes,
                count: u32::try_from(open.count).unwrap_or(u32::MAX),
                merge_ns: self.merge_ns,
            },
            sources: self.sources(),
        };
        spec.check().map_err(|error| LabError::Input(error.to_string()))?;
        Ok(CalibratedCard { spec, moved })
    }

    /// Times of random writes that close no unit: writes inside an open unit, and for sizes above a
    /// unit writes over the whole device, if these close no unit either.
    fn random_writes(&self) -> Vec<RequestTime> {
        let of = |placing| self.series(Direction::Write, placing).map_or(&[][..], |series| &series.points);
        let larger = of(Placing::Spread).iter().filter(|point| point.bytes > self.unit.bytes && self.merge_ns == 0);
        of(Placing::InUnit).iter().chain(larger).copied().collect()
    }

    fn sources(&self) -> BTreeMap<String, String> {
        let counts = self.series.iter().flat_map(|series| &series.points).map(|point| point.requests);
        let (least, most) = counts.fold((usize::MAX, 0), |(least, most), n| (least.min(n), most.max(n)));
        let unit = match self.unit.is_told {
            true => "told by the device, or by whoever measured".to_string(),
            false => format!("assumption: {}, as the device does not tell it", format_bytes(self.unit.bytes)),
        };
        let open = match &self.open_units {
            Some(open) if open.is_exact => {
                format!("measured: writes of {} take another time with one stream more", format_bytes(open.piece))
            }
            Some(open) => format!("measured: at least so many; no step was seen up to {} streams", open.count),
            None => "assumption".to_string(),
        };
        let texts = [
            ("geometry", "the device's own".to_string()),
            ("curves", format!("measured by nandkit calibrate: means of {least} to {most} requests of each size")),
            ("timing", "derived: none, as the measured times hold it; trims were not measured".to_string()),
            ("open_units.size", unit),
            ("open_units.count", open),
            (
                "open_units.merge_ns",
                "measured: what a write over the whole device takes beyond one into an open unit".to_string(),
            ),
        ];
        texts.into_iter().map(|(key, text)| (key.to_string(), text)).collect()
    }
}

//! How long a new part lasts if it is used as in the measured phase.

use crate::figures::LayerValue;
use crate::run_record::RunRecord;

/// Bytes that the user can write until the most worn blocks have had the erases that the part is
/// rated for; `None` if the record has no rating, or nothing was erased.
pub(crate) fn lifetime_bytes(record: &RunRecord) -> Option<f64> {
    Some(repetitions(record)? * record.figures.user_bytes_written as f64)
}

/// Seconds of simulated time in which the user can write [`lifetime_bytes`], if the workload never
/// pauses.
pub(crate) fn lifetime_s(record: &RunRecord) -> Option<f64> {
    Some(repetitions(record)? * record.figures.elapsed_ns as f64 / 1e9)
}

/// How often the measured phase can be repeated on a new part.
fn repetitions(record: &RunRecord) -> Option<f64> {
    let device = record.spec.get("stack")?.get("device")?;
    let cycles = device.get("endurance")?.get("cycles")?.as_f64()?;
    let blocks = device.get("geometry")?.get("blocks")?.as_f64()?;
    let erases = record.figures.erases as f64;
    (erases > 0.0).then(|| cycles * blocks / (erases * unevenness(record)))
}

/// Erases of the most worn range of blocks since the chip was made, as a multiple of the mean; 1 if
/// the record has no map of wear.
///
/// Ranges of blocks are used rather than single blocks, and all phases rather than the measured
/// one: after about one erase a block, the block with the most erases shows chance, not wear.
fn unevenness(record: &RunRecord) -> f64 {
    let Some(LayerValue::Series(ranges)) = record.layers.get("wear").and_then(|wear| wear.get("erases_by_range"))
    else {
        return 1.0;
    };
    let mean = ranges.iter().sum::<f64>() / ranges.len() as f64;
    let most = ranges.iter().copied().fold(mean, f64::max);
    if mean > 0.0 { most / mean } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run_record::testing::record;
    use serde_json::json;

    #[test]
    fn a_part_lasts_until_its_most_worn_blocks_reach_the_rating() {
        let mut record = record();
        assert_eq!(lifetime_bytes(&record), None);
        record.spec = json!({"stack": {"device": {"endurance": {"cycles": 3000}, "geometry": {"blocks": 1024}}}});
        // 12 erases for 1 MiB in 2 s: 1,024 blocks have 3,072,000 erases, 256,000 times as many.
        let even = (256_000.0 * f64::from(1 << 20), 512_000.0);
        assert_eq!((lifetime_bytes(&record), lifetime_s(&record)), (Some(even.0), Some(even.1)));
        let mut wear = |ranges: &[f64]| {
            let of_wear = record.layers.entry("wear".into()).or_default();
            of_wear.insert("erases_by_range".into(), LayerValue::series(ranges.to_vec()));
            lifetime_s(&record)
        };
        assert_eq!(wear(&[3.0, 3.0]), Some(even.1));
        // One range wears four times as fast as the mean of all.
        assert_eq!(wear(&[0.0, 0.0, 4.0, 0.0]), Some(even.1 / 4.0));
        assert_eq!(wear(&[]), Some(even.1));
        record.figures.erases = 0;
        assert_eq!(lifetime_bytes(&record), None);
    }
}

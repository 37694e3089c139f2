//! The segments of an F2FS volume, as a picture with one character each and as JSON.

use nandkit_f2fs::segment_map::{SegmentMap, Shown};
use serde_json::{Value, json};

use crate::format::volume::{SegmentTable, SegmentsShown};

/// Smallest number of segments per row.
const ROW_MIN: usize = 10;

impl SegmentTable for SegmentMap {
    fn draw(&self, shown: SegmentsShown, columns: usize) -> String {
        let shown = match shown {
            SegmentsShown::Fill => Shown::Fill,
            SegmentsShown::Kind => Shown::Kind,
        };
        let digits = self.segments.len().saturating_sub(1).to_string().len();
        // Row lengths are multiples of ten, so that segment numbers are easy to count.
        let length = (columns.saturating_sub(digits + 2) / 10 * 10).max(ROW_MIN);
        let mut text = String::from("\n");
        for (first, row) in self.rows(shown, length) {
            text += &format!("{:>digits$}  {row}\n", first.0);
        }
        text.push('\n');
        text.extend(shown.legend().iter().map(|line| format!("{line}\n")));
        text += &format!("\n{:<10} {:>9} {:>13} {:>6} {:>5}\n", "type", "segments", "valid blocks", "full", "used");
        for (name, totals) in SegmentMap::NAMES.into_iter().zip(self.totals()) {
            let room = u64::from(totals.segments) * 512;
            let used =
                (totals.valid_blocks * 100).checked_div(room).map_or_else(|| "-".to_owned(), |used| format!("{used}%"));
            text += &format!(
                "{name:<10} {:>9} {:>13} {:>6} {used:>5}\n",
                totals.segments, totals.valid_blocks, totals.full
            );
        }
        text += &format!("{:<10} {:>9}\n", "free", self.free());
        text
    }

    fn json(&self) -> Value {
        let name = |index: usize| SegmentMap::NAMES.get(index).copied();
        let types: Vec<Option<usize>> =
            self.segments.iter().map(|segment| segment.kind.map(|kind| kind.index())).collect();
        let totals: Vec<Value> = (0..)
            .zip(self.totals())
            .map(|(index, totals)| {
                json!({"type": name(index), "segments": totals.segments, "valid_blocks": totals.valid_blocks, "full": totals.full})
            })
            .collect();
        let logs = (0..).zip(&self.logs);
        let logs =
            logs.map(|(index, log)| json!({"type": name(index), "segment": log.segment.0, "next_block": log.next}));
        json!({
            "blocks_per_segment": 512,
            "type_names": SegmentMap::NAMES,
            "valid_blocks": self.segments.iter().map(|segment| segment.valid).collect::<Vec<_>>(),
            "types": types,
            "logs": logs.collect::<Vec<_>>(),
            "free": self.free(),
            "totals": totals,
        })
    }
}

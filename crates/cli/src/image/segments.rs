//! `nandkit info --segments`: the segments of an F2FS volume, a character each.

use nandkit_stack::image::{SegmentMap, SegmentsShown};
use serde_json::{Value, json};

/// Columns where standard output is no terminal.
const COLUMNS: usize = 100;
/// Fewest segments of a row.
const ROW_MIN: usize = 10;

/// The width of the terminal, where standard output is one.
pub fn columns() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok();
    size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0).unwrap_or(COLUMNS)
}

/// The map, its legend, and the types in numbers; lines of so many columns at the most, where that is possible.
pub fn text(map: &SegmentMap, shown: SegmentsShown, columns: usize) -> String {
    let digits = map.segments.len().saturating_sub(1).to_string().len();
    // Rows of whole tens, so that a segment's number can be counted.
    let length = (columns.saturating_sub(digits + 2) / 10 * 10).max(ROW_MIN);
    let mut text = String::from("\n");
    for (first, row) in map.rows(shown, length) {
        text += &format!("{:>digits$}  {row}\n", first.0);
    }
    text.push('\n');
    text.extend(shown.legend().iter().map(|line| format!("{line}\n")));
    text += &format!("\n{:<10} {:>9} {:>13} {:>6} {:>5}\n", "type", "segments", "valid blocks", "full", "used");
    for (name, totals) in SegmentMap::NAMES.into_iter().zip(map.totals()) {
        let room = u64::from(totals.segments) * 512;
        let used =
            (totals.valid_blocks * 100).checked_div(room).map_or_else(|| "-".to_owned(), |used| format!("{used}%"));
        text +=
            &format!("{name:<10} {:>9} {:>13} {:>6} {used:>5}\n", totals.segments, totals.valid_blocks, totals.full);
    }
    text += &format!("{:<10} {:>9}\n", "free", map.free());
    text
}

/// The map in JSON: valid blocks and types by segment.
pub fn json(map: &SegmentMap) -> Value {
    let name = |index: usize| SegmentMap::NAMES.get(index).copied();
    let types: Vec<Option<usize>> = map.segments.iter().map(|segment| segment.kind.map(|kind| kind.index())).collect();
    let totals: Vec<Value> = (0..)
        .zip(map.totals())
        .map(|(index, totals)| {
            json!({"type": name(index), "segments": totals.segments, "valid_blocks": totals.valid_blocks, "full": totals.full})
        })
        .collect();
    let logs = (0..).zip(&map.logs);
    let logs = logs.map(|(index, log)| json!({"type": name(index), "segment": log.segment.0, "next_block": log.next}));
    json!({
        "blocks_per_segment": 512,
        "type_names": SegmentMap::NAMES,
        "valid_blocks": map.segments.iter().map(|segment| segment.valid).collect::<Vec<_>>(),
        "types": types,
        "logs": logs.collect::<Vec<_>>(),
        "free": map.free(),
        "totals": totals,
    })
}

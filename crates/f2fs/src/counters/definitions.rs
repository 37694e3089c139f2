//! The definitions of the values that [`super::Published`] shows.

use nandkit_units::{Better, StatisticDefinition};

/// Names and descriptions of the logs, in the order of the segment types.
const LOGS: [(&str, &str); 6] = [
    ("hot_data", "hot data"),
    ("warm_data", "warm data"),
    ("cold_data", "cold data"),
    ("hot_node", "hot nodes"),
    ("warm_node", "warm nodes"),
    ("cold_node", "cold nodes"),
];

/// Names and descriptions of the ways in which a block gets its address.
const WAYS: [(&str, &str); 4] = [
    ("lfs", "appended to a segment that was empty"),
    ("ssr", "in a gap of a used segment"),
    ("claimed", "at a requested address, as in a recovery"),
    ("in_place", "in place of their old version"),
];

/// Name, unit, direction and text of each value whose name is not composed.
const SINGLE: &[(&str, &str, Better, &str)] = &[
    ("checkpoints_asked", "", Better::Lower, "checkpoints for a sync, an fsync, or too many changes in memory"),
    ("checkpoints_forced", "", Better::Lower, "checkpoints for free segments, or at the end of a recovery"),
    ("foreground_sections", "", Better::Lower, "sections collected while an operation waited"),
    ("foreground_emptied_sections", "", Better::Neither, "of these, those with nothing valid left"),
    ("foreground_moved_data_blocks", "blocks", Better::Lower, "data blocks moved out of them"),
    ("foreground_moved_node_blocks", "blocks", Better::Lower, "nodes moved out of them"),
    ("background_sections", "", Better::Neither, "sections collected in idle time"),
    ("background_emptied_sections", "", Better::Neither, "of these, those with nothing valid left"),
    ("background_moved_data_blocks", "blocks", Better::Lower, "data blocks moved out of them"),
    ("background_moved_node_blocks", "blocks", Better::Lower, "nodes moved out of them"),
    ("treated_segments", "", Better::Neither, "segments treated before their gaps were filled"),
    ("treated_blocks_to_cold_log", "blocks", Better::Lower, "blocks that treatments moved to the cold data log"),
    ("treated_blocks_within_segment", "blocks", Better::Lower, "blocks that treatments moved within their segment"),
    (
        "moved_by_remap_blocks",
        "blocks",
        Better::Neither,
        "data blocks that the device remapped for collections and treatments",
    ),
    ("moved_by_copy_blocks", "blocks", Better::Lower, "data blocks that collections and treatments copied"),
    ("gathered_windows", "", Better::Neither, "parts of files gathered in idle time"),
    ("gathered_by_remap_blocks", "blocks", Better::Neither, "their blocks remapped by the device"),
    ("gathered_by_copy_blocks", "blocks", Better::Lower, "their blocks copied"),
    ("sit_blocks", "blocks", Better::Lower, "blocks of the segment information table written"),
    ("nat_blocks", "blocks", Better::Lower, "blocks of the node address table written"),
    ("ssa_blocks", "blocks", Better::Lower, "blocks of the segment summary area written"),
    ("pack_blocks", "blocks", Better::Lower, "blocks of checkpoint packs written"),
    ("metadata_area_blocks", "blocks", Better::Lower, "blocks written outside the main area: tables and packs"),
    (
        "main_area_blocks",
        "blocks",
        Better::Lower,
        "blocks of the main area that received content: data and nodes, including moved and remapped ones",
    ),
    ("empty_segments_taken", "", Better::Neither, "empty segments that logs took"),
    ("used_segments_taken", "", Better::Neither, "used segments that logs took for their gaps"),
    ("free_segments", "", Better::Higher, "empty segments at the end of the phase"),
    ("prefree_segments", "", Better::Neither, "segments that the next checkpoint makes free, at the end of the phase"),
    ("dirty_segments", "", Better::Neither, "segments with valid and invalid blocks, at the end of the phase"),
    ("full_segments", "", Better::Neither, "segments with valid blocks only, at the end of the phase"),
    ("log_segments", "", Better::Neither, "segments being written by logs, at the end of the phase"),
    ("prepared_segments", "", Better::Neither, "segments reserved for a log, at the end of the phase"),
    ("valid_blocks", "blocks", Better::Neither, "blocks in use including reserved addresses, at the end of the phase"),
    (
        "over_time_ns",
        "ns",
        Better::Neither,
        "simulated instants of the series over time: at most 256 checkpoints since the stack was started, and the end of the phase",
    ),
    ("free_segments_over_time", "", Better::Neither, "free segments at these instants"),
    ("prefree_segments_over_time", "", Better::Neither, "prefree segments at these instants"),
    ("dirty_segments_over_time", "", Better::Neither, "dirty segments at these instants"),
    ("full_segments_over_time", "", Better::Neither, "full segments at these instants"),
    ("valid_blocks_over_time", "blocks", Better::Neither, "blocks in use at these instants"),
];

/// The definitions of single values, of blocks by log and way, and of segments by valid blocks.
pub(super) fn definitions() -> Vec<StatisticDefinition> {
    let definition = |name: String, unit, better, text: String| StatisticDefinition { name, unit, better, text };
    let single = |&(name, unit, better, text): &(&str, &'static str, Better, &str)| {
        definition(name.to_owned(), unit, better, text.to_owned())
    };
    let mut all: Vec<StatisticDefinition> = SINGLE.iter().map(single).collect();
    for (log, what) in LOGS {
        for (way, how) in WAYS {
            let (name, text) = (format!("{log}_{way}_blocks"), format!("blocks of the log of {what} written {how}"));
            all.push(definition(name, "blocks", Better::Neither, text));
        }
    }
    for class in 0..16 {
        let (first, last) = ((class * 32).max(1), if class == 15 { 512 } else { class * 32 + 31 });
        let text = format!("segments of {first} to {last} valid blocks at the last checkpoint");
        all.push(definition(format!("segments_of_{first}_to_{last}_blocks"), "", Better::Neither, text));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct() {
        let mut names: Vec<String> = definitions().into_iter().map(|definition| definition.name).collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}

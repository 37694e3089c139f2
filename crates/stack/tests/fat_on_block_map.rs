//! FAT on the block-mapped translation layer on a chip: power cuts at programs, copies and erases,
//! torn in every way that the chip knows. What was synced is there after each.
//! `cargo xtask soak fat` is the same for as long as one likes.

use crate::fat_cuts::{Case, KINDS};

#[test]
fn what_was_synced_is_there_after_each_cut() {
    let mut cuts = Vec::new();
    for seed in 0..36 {
        cuts.extend(Case::of(seed).cut_everywhere(cuts.len() as u64));
    }
    assert!(cuts.len() >= 5_000, "{} cuts", cuts.len());
    for (name, is) in KINDS {
        let count = cuts.iter().filter(|cut| is(cut)).count();
        assert!(count >= cuts.len() / 35, "{name}: {count} of {} cuts", cuts.len());
    }
    let told: usize = KINDS.iter().map(|(_, is)| cuts.iter().filter(|cut| is(cut)).count()).sum();
    assert_eq!(told, cuts.len(), "each cut has one name");
}

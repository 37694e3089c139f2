//! FAT on the block-mapped translation layer on a chip: power cuts at programs, copies and erases,
//! torn in every way that the chip knows. What was synced is there after each.
//! `cargo xtask soak fat` is the same for as long as one likes.

use crate::fat_cuts::{Case, KINDS};

#[test]
fn what_was_synced_is_there_after_each_cut() {
    let mut cuts = Vec::new();
    for seed in 0..20 {
        cuts.extend(Case::of(seed).cut_everywhere(cuts.len() as u64));
    }
    assert!(cuts.len() >= 2_700, "{} cuts", cuts.len());
    for (name, is) in KINDS {
        let count = cuts.iter().filter(|cut| is(cut)).count();
        assert!(count >= cuts.len() / 35, "{name}: {count} of {} cuts", cuts.len());
    }
    let told: usize = KINDS.iter().map(|(_, is)| cuts.iter().filter(|cut| is(cut)).count()).sum();
    assert_eq!(told, cuts.len(), "each cut has one name");
}

/// The keys of runs that were made before there was a choice of formats stay as they are.
#[test]
fn specs_name_the_way_of_formatting_where_it_is_not_the_usual_one() {
    let spec = |text: &str| toml::from_str::<nandkit_stack::FsSpec>(text).unwrap();
    let usual = spec("kind = 'fat'\nwrite_padding = true\nformatted_before = false");
    assert_eq!(usual, spec("kind = 'fat'"));
    let written = serde_json::to_string(&usual).unwrap();
    assert!(!written.contains("padding") && !written.contains("formatted"), "{written}");
    let other = spec("kind = 'fat'\nwrite_padding = false\nformatted_before = true");
    let written = serde_json::to_string(&other).unwrap();
    for key in [r#""write_padding":false"#, r#""formatted_before":true"#] {
        assert!(written.contains(key), "{written}");
    }
    assert_eq!(serde_json::from_str::<nandkit_stack::FsSpec>(&written).unwrap(), other);
    assert!(other.title().contains("padding not written | formatted twice"), "{}", other.title());
}

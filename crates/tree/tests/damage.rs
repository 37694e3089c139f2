//! Damaged images: the intact part is delivered, and what is missing is named.

use std::fs;

use nandkit_tree::extract::extract;
use nandkit_tree::{ExtractOptions, Note};

use crate::common::{bytes, listing, quiet};
use crate::planted::{Inode, Planted};

#[test]
fn the_rest_is_delivered_and_what_is_missing_is_named() {
    let content = bytes(3 << 20, 9);
    let mut planted = Planted::default();
    let names =
        |entries: &[(&str, u64)]| entries.iter().map(|(name, inode)| (name.as_bytes().to_vec(), *inode)).collect();
    planted.0.insert(1, Inode::Directory(names(&[("torn", 99), ("hurt", 2), ("well", 3), ("d", 4)]), false));
    planted.0.insert(2, Inode::File(content.clone(), 1_500_000..1_500_001));
    planted.0.insert(3, Inode::File(b"well".to_vec(), 0..0));
    planted.0.insert(4, Inode::Directory(names(&[("before", 3)]), true));
    let place = tempfile::tempdir().unwrap();
    let target = place.path().join("out");
    let report = extract(&planted, &target, &ExtractOptions::default(), &quiet).unwrap();
    let note = |path: &str, reason: &str| Note { path: path.into(), reason: reason.into() };
    let expected = [
        note("d", "names of the directory: damaged: the list is torn"),
        note(
            "hurt",
            "4096 of 3145728 bytes are missing, first at 1499136: damaged: node of bytes 1500000..1500001 has a wrong checksum",
        ),
        note("torn", "damaged: inode 99 is torn"),
    ];
    assert_eq!(report.damaged, expected);
    assert_eq!(listing(&target), ["d", "d/before", "hurt", "well"]);
    let found = fs::read(target.join("hurt")).unwrap();
    let mut kept = content;
    kept[1_499_136..1_503_232].fill(0);
    assert!(found == kept, "all but the unit that cannot be read is kept");
    assert_eq!((report.files, report.hard_links), (2, 1));
}

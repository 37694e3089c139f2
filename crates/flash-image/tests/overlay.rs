//! Overlays left by a failed command: an unused one is removed, and one with changes or opened by
//! somebody else stays.

use std::path::{Path, PathBuf};

use nandkit_flash_image::{DumpOptions, Image, discard_unused_overlay};

const BYTES: u64 = 9 * 4096;

fn open(image: &Path, overlay: &Path) -> nandkit_flash_image::Result<Image> {
    Image::open(image, &DumpOptions { overlay: Some(overlay.to_owned()), ..DumpOptions::read_write() })
}

fn paths() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let (image, overlay) = (directory.path().join("image"), directory.path().join("overlay"));
    std::fs::write(&image, [1; BYTES as usize]).unwrap();
    (directory, image, overlay)
}

#[test]
fn only_an_overlay_that_nobody_used_or_has_open_is_unused() {
    let (_directory, image, overlay) = paths();
    assert!(!discard_unused_overlay(&overlay, BYTES), "there is none");
    let mut opened = open(&image, &overlay).unwrap();
    assert!(!discard_unused_overlay(&overlay, BYTES) && overlay.exists(), "somebody has it open");
    let mut changed = opened.bytes().to_vec();
    changed[5000] = 2;
    opened.keep_in_overlay(&Image::from_bytes(changed.clone(), None).unwrap()).unwrap();
    drop(opened);
    assert!(!discard_unused_overlay(&overlay, BYTES), "it has changes");
    assert_eq!(open(&image, &overlay).unwrap().bytes(), changed);
    let (_directory, image, overlay) = paths();
    drop(open(&image, &overlay).unwrap());
    assert!(!discard_unused_overlay(&overlay, BYTES + 1), "of another image");
    assert!(discard_unused_overlay(&overlay, BYTES) && !overlay.exists());
    std::fs::write(&overlay, "no overlay").unwrap();
    assert!(!discard_unused_overlay(&overlay, BYTES) && overlay.exists());
}

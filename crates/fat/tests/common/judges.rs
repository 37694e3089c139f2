//! Judges of images: our checker, fsck.vfat, mtools and the fatfs crate.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Read;
use std::path::Path;

use nandkit_block::BlockDevice;
use nandkit_codec::code_page::CodePage;
use nandkit_fat::{FindingKind, check};
use nandkit_testkit::listing::{Contents, compare_contents};
use nandkit_testkit::vfat::{Judges, write_image};
use nandkit_vfs::check::Kind;
use tempfile::{NamedTempFile, TempDir};

use super::clock;

/// Asserts that all judges accept an unmounted volume and find this tree on it.
pub fn judge_image<D: BlockDevice>(device: &mut D, expected: &Contents, judges: Judges, what: &str) {
    let report = check(device, &clock(), CodePage::CP437).unwrap();
    // fsck.vfat cannot judge an image on which another program wrote wrong "." and ".." entries.
    let counts = |kind| judges.fsck || judges == Judges::OURS || kind != FindingKind::WrongDots.name();
    let findings: Vec<_> = report.findings.iter().filter(|found| counts(found.kind)).collect();
    assert!(findings.is_empty(), "{what}: {findings:?}");
    assert_eq!(report.count("files"), expected.values().flatten().count() as u64, "{what}: files");
    if judges == Judges::OURS {
        return;
    }
    let image = NamedTempFile::new().unwrap();
    write_image(device, image.as_file()).unwrap();
    let said = outside(image.path(), expected, judges);
    if let Err(said) = said {
        panic!("{what}: {said}\nimage: {}", keep(image));
    }
}

fn keep(image: NamedTempFile) -> String {
    let place = std::env::temp_dir().join("nandkit-fat-failed.img");
    let _ = image.persist(&place);
    place.display().to_string()
}

/// The directory for the files that the readers extract: in memory if possible, since ext4 without
/// a journal searches long for an inode after many files were removed.
fn scratch() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() }.unwrap()
}

fn outside(image: &Path, expected: &Contents, judges: Judges) -> Result<(), String> {
    judges.judge(image, expected, scratch().path())?;
    if judges.readers {
        compare_contents(&fatfs_tree(image), expected).map_err(|said| format!("fatfs: {said}"))?;
    }
    Ok(())
}

/// The tree that the fatfs crate reads. It asks for write access, and requires sectors of 512 bytes
/// of the device below the file.
fn fatfs_tree(image: &Path) -> Contents {
    fn walk(directory: fatfs::Dir<'_, fs::File>, prefix: &str, into: &mut BTreeMap<String, Option<Vec<u8>>>) {
        for entry in directory.iter() {
            let entry = entry.unwrap();
            let name = entry.file_name();
            if name == "." || name == ".." {
                continue;
            }
            let path = format!("{prefix}{name}");
            if entry.is_dir() {
                walk(entry.to_dir(), &format!("{path}/"), into);
                into.insert(path, None);
            } else {
                let mut content = Vec::new();
                entry.to_file().read_to_end(&mut content).unwrap();
                into.insert(path, Some(content));
            }
        }
    }
    let file = OpenOptions::new().read(true).write(true).open(image).unwrap();
    let fs = fatfs::FileSystem::new(file, fatfs::FsOptions::new()).unwrap();
    let mut tree = Contents::new();
    walk(fs.root_dir(), "", &mut tree);
    tree
}

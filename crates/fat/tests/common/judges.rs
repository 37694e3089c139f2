//! Images before the judges: our checker, fsck.vfat, mtools and the fatfs crate.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Read;
use std::path::Path;

use nandkit_block::BlockDevice;
use nandkit_fat::{FindingKind, check};
use nandkit_testkit::judges;
use nandkit_testkit::listing::{Contents, as_mtools_names, compare_contents, mtools_contents};
use nandkit_vfs::check::Kind;
use tempfile::NamedTempFile;

use super::{clock, to_file};

/// Who looks at an image besides our own checker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judges {
    pub fsck: bool,
    /// Reads the whole tree.
    pub mtools: bool,
    /// Reads the whole tree.
    pub fatfs: bool,
}

impl Judges {
    pub const ALL: Self = Self { fsck: true, mtools: true, fatfs: true };
    pub const OURS: Self = Self { fsck: false, mtools: false, fatfs: false };

    /// For what the `number`th power cut left and the mount after it repaired: fsck.vfat sees each 20th, all see each 100th.
    pub const fn after_cut(number: u64) -> Self {
        let all = number.is_multiple_of(100);
        Self { fsck: number.is_multiple_of(20), mtools: all, fatfs: all }
    }
}

/// The judges look at a volume that is not mounted and holds this tree.
pub fn judge_image<D: BlockDevice>(device: &mut D, expected: &Contents, judges: Judges, what: &str) {
    let report = check(device, &clock()).unwrap();
    // Where fsck.vfat cannot judge, it is because another program wrote "." and ".." as it should not.
    let counts = |kind| judges.fsck || judges == Judges::OURS || kind != FindingKind::WrongDots.name();
    let findings: Vec<_> = report.findings.iter().filter(|found| counts(found.kind)).collect();
    assert!(findings.is_empty(), "{what}: {findings:?}");
    assert_eq!(report.count("files"), expected.values().flatten().count() as u64, "{what}: files");
    if judges == Judges::OURS {
        return;
    }
    let image = to_file(device);
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

fn outside(image: &Path, expected: &Contents, judges: Judges) -> Result<(), String> {
    if judges.fsck {
        let complaints = judges::fsck_vfat(image).map_err(|error| error.to_string())?;
        if !complaints.is_empty() {
            return Err(format!("fsck.vfat: {}", complaints.join("\n")));
        }
    }
    if judges.mtools {
        let target = tempfile::tempdir().unwrap();
        let found = mtools_contents(image, target.path())?;
        let said = compare_contents(&found, &as_mtools_names(expected));
        said.map_err(|said| format!("mtools: {said}"))?;
    }
    if judges.fatfs {
        compare_contents(&fatfs_tree(image), expected).map_err(|said| format!("fatfs: {said}"))?;
    }
    Ok(())
}

/// What the crate fatfs reads. It asks for write access, and takes sectors of 512 bytes only where the file is a device of such sectors; it reads all.
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

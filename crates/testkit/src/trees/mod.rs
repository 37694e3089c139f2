//! Trees on this machine for outside tools to make images of.

pub mod built;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use nandkit_units::random::Random;

use crate::judges::must_run;

/// Content of which some shrinks and some does not.
pub fn content(random: &mut Random, length: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(length + 3000);
    while bytes.len() < length {
        match random.below(4) {
            0 => {
                let mut noise = [0; 700];
                random.fill(&mut noise);
                bytes.extend(noise);
            }
            1 => bytes.extend([random.below(256) as u8; 1000]),
            2 => bytes.extend([0; 3000]),
            _ => (0..60).for_each(|_| bytes.extend(format!("line {} of it\n", random.below(100)).as_bytes())),
        }
    }
    bytes.truncate(length);
    bytes
}

/// Makes a tree with a file of each size, `names` small files with names of all lengths in one
/// directory, a directory of several levels, the longest name, letters that are not ASCII, links
/// of all lengths and unusual modes.
///
/// # Panics
/// On what cannot be written.
pub fn plant_all_sizes(root: &Path, sizes: &[usize], names: usize) {
    let mut random = Random::new(7, "tree of all sizes");
    fs::create_dir_all(root.join("sizes")).unwrap();
    for size in sizes {
        fs::write(root.join(format!("sizes/of-{size}")), content(&mut random, *size)).unwrap();
    }
    fs::create_dir_all(root.join("many")).unwrap();
    for number in 0..names {
        let name = format!("many/{number}-{}", "n".repeat(random.between(1, 60) as usize));
        let length = random.below(200) as usize;
        fs::write(root.join(name), content(&mut random, length)).unwrap();
    }
    fs::create_dir_all(root.join("deep/er/and/deeper/empty")).unwrap();
    fs::write(root.join("deep/er").join("x".repeat(255)), "longest name").unwrap();
    fs::write(root.join("deep").join("\u{FC}n\u{EF}c\u{F6}d\u{E9} \u{1F980}"), "letters").unwrap();
    for length in [1, 60, 254, 1000, 4000] {
        symlink("t/".repeat(length / 2 + 1).split_at(length).0, root.join(format!("link-{length}"))).unwrap();
    }
    if let Some(size) = sizes.iter().find(|size| **size > 0) {
        fs::set_permissions(root.join(format!("sizes/of-{size}")), fs::Permissions::from_mode(0o4711)).unwrap();
    }
    fs::set_permissions(root.join("deep/er"), fs::Permissions::from_mode(0o1770)).unwrap();
}

/// An access control list in the kernel's form: owner, user 1000, group, mask, others.
const ACL: &str = "0x0200000001000600ffffffff02000700e803000004000400ffffffff10000400ffffffff20000400ffffffff";

/// Makes a tree of about `files` files of every kind that a directory can hold without root, with
/// extended attributes and hard links; their sizes are divided by `shrink`. Returns a device table
/// of mkfs.jffs2 with the other kinds.
///
/// # Panics
/// On what cannot be written, and without setfattr (Debian package attr).
pub fn plant_all_kinds(root: &Path, files: usize, seed: u64, shrink: usize) -> PathBuf {
    const SIZES: [usize; 8] = [0, 1, 100, 4095, 4096, 4097, 9000, 20_000];
    let mut random = Random::new(seed, "tree of all kinds");
    let place = |number: usize| format!("d{}/e{}", number % 7, number % 3);
    let mut lines = String::new();
    for number in 0..files {
        fs::create_dir_all(root.join(place(number))).unwrap();
        let path = root.join(place(number)).join(format!("file-{number}"));
        match number % 11 {
            8 => symlink(format!("../target-{number}"), &path).unwrap(),
            9 => fs::hard_link(root.join(place(number - 5)).join(format!("file-{}", number - 5)), &path).unwrap(),
            10 => {
                let (kind, major) = [('c', 4), ('b', 8), ('p', 0)][number / 11 % 3];
                let inside = place(number);
                lines.push_str(&format!("/{inside}/node-{number} {kind} 640 1 2 {major} {} 0 0 -\n", number * 2));
            }
            kind => {
                // The largest stays one of several pages.
                let divisor = if kind == 7 { 1.max(shrink / 4) } else { shrink };
                let length = SIZES[kind] / divisor + random.index(3) * (kind & 1);
                fs::write(&path, content(&mut random, length)).unwrap();
                match kind {
                    3 => {
                        set_attribute(&path, "user.number", &number.to_string());
                        set_attribute(&path, "user.common", "the same for all");
                    }
                    4 => set_attribute(&path, "system.posix_acl_access", ACL),
                    _ => {}
                }
            }
        }
    }
    let table = root.with_extension("table");
    fs::write(&table, lines).unwrap();
    table
}

fn set_attribute(path: &Path, name: &str, value: &str) {
    must_run("attr", "setfattr", ["-n", name, "-v", value, path.to_str().unwrap()]);
}

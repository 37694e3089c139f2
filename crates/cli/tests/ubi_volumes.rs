//! `nandkit ubi`: volumes of images of ubinize are made, filled, renamed and removed.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::common::{json, refused, run, succeeds, tells};
use crate::ubi::{PEB, with_image};

fn image(path: &Path) -> Vec<u8> {
    fs::read(path.join("i")).expect("an image")
}

/// The volumes: name, type and reserved PEBs.
fn volumes(path: &Path) -> Vec<(String, String, u64)> {
    let told = json(path, &["ubi", "info", "i", "--json"]);
    let text = |volume: &Value, key: &str| volume[key].as_str().expect("a text").to_owned();
    let volumes = told["volume"]["volumes"].as_array().expect("volumes").iter();
    let row = |volume: &Value| {
        (text(volume, "name"), text(volume, "type"), volume["pebs_reserved"].as_u64().expect("a number"))
    };
    volumes.map(row).collect()
}

#[test]
fn volumes_change_and_nothing_else_does() {
    let directory = with_image();
    let path = directory.path();
    let before = image(path);
    let made = succeeds(path, &["ubi", "mkvol", "i", "data", "1M", "--size", "16M"]);
    assert!(
        made.starts_with("made volume 2 'data', dynamic, 9 LEBs, room for 1.1 MiB\nnew volumes can have "),
        "{made}"
    );
    assert_eq!(image(path).len(), 16 << 20);
    run(path, "yes no | head -c 230000 > new");
    succeeds(path, &["ubi", "update", "i", "kernel", "new"]);
    succeeds(path, &["ubi", "extract", "i", "kernel", "k"]);
    run(path, "cmp k new && rm k");
    // An image shorter than its flash grows by what is written.
    fs::write(path.join("short"), &before).expect("written");
    succeeds(path, &["ubi", "update", "short", "kernel", "new"]);
    let short = fs::metadata(path.join("short")).expect("an image").len();
    assert!(short.is_multiple_of(PEB as u64) && short <= before.len() as u64 + 5 * PEB as u64, "{short}");
    succeeds(path, &["ubi", "extract", "short", "kernel", "k"]);
    run(path, "cmp k new");
    succeeds(path, &["ubi", "mkvol", "i", "blob", "150000", "--static", "--number", "7", "--alignment", "2048"]);
    succeeds(path, &["ubi", "rsvol", "i", "data", "2M"]);
    succeeds(path, &["ubi", "rename", "i", "rootfs", "root", "data", "store"]);
    let expected = [("kernel", "static", 2), ("root", "dynamic", 34), ("store", "dynamic", 17), ("blob", "static", 2)];
    let owned = |(name, kind, pebs): (&str, &str, u64)| (name.to_owned(), kind.to_owned(), pebs);
    assert_eq!(volumes(path), expected.map(owned));
    // The blocks of the file system are where they were, byte for byte.
    assert!(image(path)[4 * PEB..before.len()] == before[4 * PEB..]);
    assert_eq!(succeeds(path, &["cat", "i", "/file"]), "text\n");
    succeeds(path, &["check", "i"]);
    let told = json(path, &["ubi", "info", "i", "--json"]);
    assert!(told["volume"]["erases_max"].as_u64() > Some(0), "{told}");
    succeeds(path, &["ubi", "rmvol", "i", "store", "blob"]);
    assert_eq!(volumes(path).len(), 2);
    assert_eq!(succeeds(path, &["ubi", "ls", "i"]).lines().count(), 2);
}

#[test]
fn what_is_refused_or_tried_changes_nothing() {
    let directory = with_image();
    let path = directory.path();
    let before = image(path);
    run(path, "head -c 900000 /dev/zero > large");
    for (arguments, part) in [
        (&["mkvol", "i", "kernel", "1M", "--size", "16M"][..], "a volume has the name 'kernel'"),
        (&["mkvol", "i", "data", "1M"], "needs 9 more blocks; 0 are available"),
        (&["mkvol", "i", "data", "1M", "--size", "16M", "--number", "1"], "a volume has number 1"),
        (&["mkvol", "i", "data", "1M", "--size", "16M", "--alignment", "100"], "a multiple of 2048"),
        (&["rmvol", "i", "data"], "expected one of: kernel, rootfs"),
        (&["rmvol", "i", "kernel", "data"], "no volume is called 'data'"),
        (&["rsvol", "i", "kernel", "1"], "takes 2"),
        (&["rename", "i", "kernel"], "2 values required"),
        (&["rename", "i", "kernel", "a", "rootfs"], "'rootfs' has no new name"),
        (&["rename", "i", "kernel", "a", "rootfs", "a"], "occurs twice"),
        (&["update", "i", "kernel", "large"], "do not fit"),
        (&["update", "i", "kernel", "nothing"], "nothing: cannot be read"),
        (&["update", "i", "kernel", "tree"], "this is no file"),
        (&["rmvol", "rootfs", "kernel"], "holds files, no volumes; expected UBI"),
    ] {
        refused(path, &[&["ubi"], arguments].concat(), &[part]);
        assert!(image(path) == before, "{arguments:?}");
    }
    let told = succeeds(path, &["ubi", "rmvol", "i", "kernel", "--dry-run"]);
    assert!(told.starts_with("dry run: removed volume 0 'kernel'"), "{told}");
    assert!(image(path) == before);
}

#[test]
fn a_damaged_device_is_changed_on_request_alone() {
    let directory = with_image();
    let path = directory.path();
    let mut damaged = image(path);
    // The volume identifier of a block of the file system.
    damaged[6 * PEB + 2048..][..64].fill(0x55);
    fs::write(path.join("i"), &damaged).expect("written");
    tells(
        path,
        &["ubi", "rmvol", "i", "kernel"],
        1,
        "nothing was changed; expected a sound device, or --even-if-damaged",
    );
    assert!(image(path) == damaged);
    succeeds(path, &["ubi", "rmvol", "i", "kernel", "--even-if-damaged"]);
    // What may be somebody's data stays.
    assert!(image(path)[6 * PEB..7 * PEB] == damaged[6 * PEB..7 * PEB]);
}

#[test]
fn ubinize_makes_the_images_of_ubinize() {
    let directory = with_image();
    let path = directory.path();
    run(
        path,
        "printf '[a]\nmode=ubi\nimage=kernel\nvol_id=0\nvol_type=static\nvol_name=a\nvol_flags=skip-check\nvol_alignment=2048\n\
         \n; a comment\n[b]\nmode=ubi\nvol_id=5\nvol_name=b\nvol_size=300KiB\nvol_flags=autoresize\n' > d",
    );
    for (theirs, ours) in [
        ("-p 128KiB -m 2048 -s 512 -Q 7 -e 3", "-p 128K -m 2048 -s 512 -Q 7 -e 3"),
        ("-p 128KiB -m 2048 -O 2048 -Q 9", "-p 0x20000 -m 2048 -O 2048 -Q 9"),
        ("-p 64KiB -m 1 -Q 7", "-p 64K -m 1 -Q 7"),
    ] {
        run(path, &format!("ubinize -o theirs {theirs} d"));
        let arguments: Vec<&str> = "ubi ubinize d ours --force".split(' ').chain(ours.split(' ')).collect();
        succeeds(path, &arguments);
        run(path, "cmp ours theirs");
    }
    refused(path, &["ubi", "ubinize", "d", "ours", "-p", "128K", "-m", "1"], &["ours: exists"]);
    for (line, part) in [
        ("vol_size=0", "line 1, section [a]: 0 bytes; expected vol_size, or an image"),
        ("vol_kind=x", "an unknown key 'vol_kind'"),
        ("vol_type=x", "vol_type = x; expected dynamic or static"),
        ("nothing", "line 4: 'nothing'; expected [NAME], then KEY=VALUE"),
    ] {
        fs::write(path.join("d"), format!("[a]\nmode=ubi\nvol_name=a\n{line}\n")).expect("written");
        refused(path, &["ubi", "ubinize", "d", "new", "-p", "128K", "-m", "1"], &[part]);
    }
}

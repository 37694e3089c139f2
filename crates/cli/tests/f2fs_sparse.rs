//! Android sparse images, from the command line: simg2img, img2simg and fsck.f2fs are the judges.

use std::fs;

use crate::common::{exits, fsck_f2fs, json, nandkit, run, succeeds, tells};

fn with_tree() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    let tree = directory.path().join("tree");
    fs::create_dir_all(tree.join("app/empty")).expect("directories");
    let large: Vec<u8> = (0..3_000_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    fs::write(tree.join("app/large"), large).expect("a file");
    fs::write(tree.join("app/erased"), vec![0xFF; 2 << 20]).expect("a file");
    directory
}

#[test]
fn a_sparse_image_is_made_and_simg2img_unpacks_it() {
    let directory = with_tree();
    let path = directory.path();
    let told = json(path, &["mkfs", "f2fs", "--from", "tree", "--size", "512M", "--sparse", "--json", "i.simg"]);
    let packed = fs::metadata(path.join("i.simg")).expect("a file").len();
    assert_eq!(told["packed_bytes"].as_u64(), Some(packed));
    assert!(packed < 8 << 20, "{packed} bytes");
    run(path, "simg2img i.simg i.raw");
    succeeds(path, &["mkfs", "f2fs", "--from", "tree", "--size", "512M", "i.plain"]);
    run(path, "cmp i.raw i.plain");
    fsck_f2fs(path, "i.raw");
    assert_eq!(fs::read_dir(path).expect("a directory").count(), 4, "nothing is left behind");
    let outcome = exits(path, &["mkfs", "f2fs", "--size", "67109376", "--sparse", "new"], 2);
    assert!(outcome.stderr.contains("a multiple of 4096") && !path.join("new").exists(), "{}", outcome.stderr);
}

#[test]
fn sparse_images_are_read_like_others_and_not_changed() {
    let directory = with_tree();
    let path = directory.path();
    run(
        path,
        "truncate -s 100M i && mkfs.f2fs -q i >/dev/null && sload.f2fs -f tree -t / i >/dev/null && img2simg i i.simg",
    );
    let before = fs::read(path.join("i.simg")).expect("an image");
    succeeds(path, &["extract", "i.simg", "out"]);
    run(path, "diff -r --no-dereference tree out");
    let outcome = nandkit(path, &["ls", "i.simg"]);
    assert!(outcome.stderr.contains("an Android sparse image"), "{}", outcome.stderr);
    assert_eq!(outcome.stdout, "app\n");
    succeeds(path, &["check", "i.simg"]);
    let info = json(path, &["info", "i.simg", "--json"]);
    assert_eq!((info["file_bytes"].as_u64(), info["image"].as_str()), (Some(100 << 20), Some("f2fs")));
    for words in [
        &["rm", "i.simg", "/app/large"][..],
        &["mount", "i.simg", "mnt", "--rw"],
        &["ls", "i.simg", "--overlay", "over"],
        &["serve", "--image", "i.simg", "--rw", "--socket", "s"],
    ] {
        fs::create_dir_all(path.join("mnt")).expect("a directory");
        exits(path, words, 2);
    }
    let outcome = nandkit(path, &["rm", "i.simg", "/app/large"]);
    assert!(outcome.stderr.contains("Android sparse image, which can only be read"), "{}", outcome.stderr);
    assert_eq!(fs::read(path.join("i.simg")).expect("an image"), before);
    // A FAT volume goes the same way, and one at an offset.
    run(path, "mkfs.vfat -C f 16384 >/dev/null && (head -c 1048576 /dev/zero; cat f) > g && img2simg g g.simg");
    assert_eq!(succeeds(path, &["ls", "g.simg", "--offset", "1M"]), "");
    // What is cut short, or says otherwise than it is.
    fs::write(path.join("c.simg"), &before[..before.len() - 5]).expect("a file");
    tells(path, &["ls", "c.simg"], 2, "Android sparse image: it ends within chunk");
    fs::write(path.join("c.simg"), &before[..20]).expect("a file");
    assert_eq!(nandkit(path, &["info", "c.simg"]).status, Some(2));
}

#[test]
fn a_sparse_image_is_served_as_what_it_unpacks_to() {
    let directory = with_tree();
    let path = directory.path();
    succeeds(path, &["mkfs", "f2fs", "--from", "tree", "i"]);
    run(path, "img2simg i i.simg");
    let serve = "NANDKIT serve --image i.simg --socket s --once > said & while ! grep -q nbd said; do sleep 0.05; done; nbdcopy 'nbd+unix:///?socket=s' back && wait";
    run(path, &serve.replace("NANDKIT", env!("CARGO_BIN_EXE_nandkit")));
    run(path, "cmp i back");
}

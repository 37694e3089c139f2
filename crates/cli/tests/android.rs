//! Android's files about a tree: `mkfs f2fs` reads them, `extract` writes them. fsck.f2fs, and a
//! reader of F2FS's attributes of its own (python), are the judges.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::{exits, fsck_f2fs, nandkit, succeeds};
use serde_json::Value;

const FS_CONFIG: &str = " 0 0 755 selabel=u:object_r:rootfs:s0 capabilities=0x0
system/bin 0 2000 751
system/bin/ping 0 2000 750 capabilities=0x2000
system/bin/sh 0 2000 755
system/etc 0 0 755
system/etc/a.b\u{E4}[c] 1000 1001 640
system/etc/hard 0 2000 755
system/etc/link 0 0 644 target
system/gone 0 0 644
";
const FILE_CONTEXTS: &str = "# labels
/system(/.*)?           u:object_r:system_file:s0
/system/bin/.*  --      u:object_r:system_bin:s0
/system/bin/sh          u:object_r:shell_exec:s0
/system/etc/link  -l    <<none>>
";

fn with_tree() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    for name in ["tree/bin", "tree/etc"] {
        fs::create_dir_all(path.join(name)).expect("a directory");
    }
    fs::write(path.join("tree/bin/ping"), "ping").expect("a file");
    fs::write(path.join("tree/bin/sh"), "shell").expect("a file");
    fs::write(path.join("tree/etc/a.b\u{E4}[c]"), "odd").expect("a file");
    fs::hard_link(path.join("tree/bin/sh"), path.join("tree/etc/hard")).expect("a link");
    std::os::unix::fs::symlink("a.b", path.join("tree/etc/link")).expect("a link");
    fs::write(path.join("fs_config"), FS_CONFIG).expect("a file");
    fs::write(path.join("file_contexts"), FILE_CONTEXTS).expect("a file");
    directory
}

const BOTH: [&str; 6] = ["--mount-point", "/system", "--fs-config", "fs_config", "--file-contexts", "file_contexts"];

fn mkfs(path: &Path, image: &str, options: &[&str]) -> crate::common::ProgramRun {
    let words = [&["mkfs", "f2fs", "--from", "tree", "--size", "100M", "-f", image], options].concat();
    nandkit(path, &words)
}

fn rows(path: &Path, image: &str) -> Vec<Value> {
    let list = succeeds(path, &["ls", "-R", "--xattrs", "--json", image]);
    let Value::Array(rows) = serde_json::from_str(&list).expect("JSON") else { panic!("{list}") };
    rows
}

/// Reads a volume's inodes on its own: mode, owners and inline attributes by name in the inode
/// (inodes lie in node blocks whose footer names them twice; linux/f2fs_fs.h).
const JUDGE: &str = r"
import struct, sys
image = open(sys.argv[1], 'rb').read()
word = lambda at: struct.unpack_from('<I', image, at)[0]
main = word(1024 + 92) * 4096
for at in range(main, len(image), 4096):
    nid, ino = struct.unpack_from('<II', image, at + 4072)
    mode, advise, inline, uid, gid = struct.unpack_from('<HBBII', image, at)
    if nid != ino or nid < 3 or word(at + 12) == 0 and uid > 70000: continue
    size = struct.unpack_from('<I', image, at + 88)[0]
    name = image[at + 92:at + 92 + size].decode('utf8', 'replace')
    found = {}
    start = at + 4096 - 24 - 20 - 200
    if inline & 1 and word(start) == 0xF2F52011:
        entry = start + 24
        while word(entry):
            index, length, value = struct.unpack_from('<BBH', image, entry)
            found[index, image[entry + 4:entry + 4 + length].decode()] = image[entry + 4 + length:entry + 4 + length + value]
            entry += (4 + length + value + 3) // 4 * 4
    print(name, oct(mode), uid, gid, found.get((6, 'selinux')), found.get((6, 'capability'), b'').hex(), sep='|')
";

#[test]
fn an_image_has_what_androids_files_say() {
    let directory = with_tree();
    let path = directory.path();
    let made = mkfs(path, "i", &BOTH);
    assert_eq!(made.status, Some(0), "{}", made.stderr);
    fsck_f2fs(path, "i");
    let judged = Command::new("python3").args(["-c", JUDGE, "i"]).current_dir(path).output().expect("python runs");
    let judged = String::from_utf8_lossy(&judged.stdout).into_owned();
    for expected in [
        "bin|0o40751|0|2000|b'u:object_r:system_file:s0\\x00'|\n",
        "ping|0o100750|0|2000|b'u:object_r:system_bin:s0\\x00'|0100000200200000000000000000000000000000\n",
        "sh|0o100755|0|2000|b'u:object_r:shell_exec:s0\\x00'|\n",
        "a.b\u{E4}[c]|0o100640|1000|1001|b'u:object_r:system_file:s0\\x00'|\n",
        "link|0o120644|0|0|None|\n",
    ] {
        assert!(judged.contains(expected), "{expected}{judged}");
    }
    // Lists and getfattr show them.
    let list = succeeds(path, &["ls", "-l", "--xattrs", "i", "/bin"]);
    assert!(list.contains("ping\n    security.capability=0x0100000200200000"), "{list}");
    assert!(list.contains("    security.selinux=\"u:object_r:shell_exec:s0\"\n"), "{list}");
    let told = succeeds(path, &["getfattr", "i", "/bin/sh", "etc"]);
    let expected = "# file: bin/sh\nsecurity.selinux=\"u:object_r:shell_exec:s0\"\n\n# file: etc\nsecurity.selinux=\"u:object_r:system_file:s0\"\n\n";
    assert_eq!(told, expected);
    let told = nandkit(path, &["getfattr", "i", "-n", "security.capability", "/bin/ping", "/bin/sh", "--json"]);
    assert!(told.status == Some(1) && told.stderr.contains("/bin/sh: there is no attribute"), "{}", told.stderr);
    let json: Value = serde_json::from_str(&told.stdout).expect("JSON");
    assert_eq!(json[0]["xattrs"]["security.capability"], "0x0100000200200000000000000000000000000000");
    assert_eq!(json[1]["xattrs"], serde_json::json!({}));
    assert_eq!(nandkit(path, &["getfattr", "i", "/none"]).status, Some(2));
}

#[test]
fn what_extract_writes_makes_the_same_image_again() {
    let directory = with_tree();
    let path = directory.path();
    assert_eq!(mkfs(path, "i", &BOTH).status, Some(0));
    succeeds(path, &["extract", "i", "out", "--mount-point", "system/", "--fs-config", "f", "--file-contexts", "c"]);
    let config = fs::read_to_string(path.join("f")).expect("a file");
    assert!(config.starts_with(" 0 0 755 capabilities=0x0\nsystem/bin 0 2000 751 capabilities=0x0\n"), "{config}");
    assert!(config.contains("system/bin/ping 0 2000 750 capabilities=0x2000\n"), "{config}");
    let contexts = fs::read_to_string(path.join("c")).expect("a file");
    assert!(contexts.contains("\n/system/etc/a\\.b\\xc3\\xa4\\[c\\] u:object_r:system_file:s0\n"), "{contexts}");
    assert!(contexts.contains("\n/system/etc/link <<none>>\n"), "{contexts}");
    // From files that everybody may own, without attributes: all comes from the two files.
    let stripped = "find out -exec setfattr -hx security.selinux {} + 2>/dev/null; find out -type f -exec setfattr -x security.capability {} + 2>/dev/null; chown -hR 5:6 out; rm -rf tree && mv out tree";
    Command::new("sh").args(["-c", stripped]).current_dir(path).status().expect("sh runs");
    let again = mkfs(path, "j", &["--mount-point", "/system", "--fs-config", "f", "--file-contexts", "c"]);
    assert_eq!(again.status, Some(0), "{}", again.stderr);
    fsck_f2fs(path, "j");
    let without_inodes = |rows: Vec<Value>| -> Vec<Value> {
        let strip = |mut row: Value| {
            ["inode", "modified_ns"].iter().for_each(|key| drop(row.as_object_mut().expect("an object").remove(*key)));
            row
        };
        rows.into_iter().map(strip).collect()
    };
    assert_eq!(without_inodes(rows(path, "i")), without_inodes(rows(path, "j")));
    let files = |image: &str| -> [String; 2] {
        let (out, f, c) = (format!("{image}-out"), format!("{image}-f"), format!("{image}-c"));
        succeeds(path, &["extract", image, &out, "--fs-config", &f, "--file-contexts", &c]);
        [f, c].map(|name| fs::read_to_string(path.join(name)).expect("a file"))
    };
    assert_eq!(files("i"), files("j"));
    // A file that is there is not replaced.
    assert_eq!(nandkit(path, &["extract", "i", "third", "--fs-config", "f"]).status, Some(2));
    assert!(!path.join("third").exists());
}

#[test]
fn what_the_files_have_no_words_for_is_told() {
    let directory = with_tree();
    let path = directory.path();
    fs::write(path.join("tree/two words"), "x").expect("a file");
    assert_eq!(mkfs(path, "i", &[]).status, Some(0));
    succeeds(path, &["setfattr", "i", "-n", "security.capability", "-v", "0x00", "/bin/sh"]);
    succeeds(path, &["setfattr", "i", "-n", "security.selinux", "-v", "no label", "/bin/ping"]);
    let told = exits(path, &["extract", "i", "out", "--fs-config", "f", "--file-contexts", "c", "--no-xattrs"], 1);
    for expected in ["not in f: /two words: ", "not in f: /bin/sh: ", "not in f: /etc/hard: ", "not in c: /bin/ping: "]
    {
        assert!(told.stderr.contains(expected), "{expected}: {}", told.stderr);
    }
    let contexts = fs::read_to_string(path.join("c")).expect("a file");
    assert!(contexts.contains("/two\\x20words <<none>>\n"), "{contexts}");
}

#[test]
fn wrong_lines_and_missing_paths_are_named_and_nothing_is_made() {
    let directory = with_tree();
    let path = directory.path();
    let without = |line: &str| FS_CONFIG.replace(line, "");
    for (config, contexts, expected) in [
        (FS_CONFIG.replace("0 2000 751", "0 2000 9"), FILE_CONTEXTS.to_owned(), "--fs-config fs_config: line 2: "),
        (
            FS_CONFIG.to_owned(),
            FILE_CONTEXTS.replace("u:object_r:system_bin:s0", "u"),
            "--file-contexts file_contexts: line 3: ",
        ),
        (FS_CONFIG.to_owned(), FILE_CONTEXTS.replace("(/.*)?", "(/.*"), "--file-contexts file_contexts: line 2: "),
        (without("system/bin/sh 0 2000 755\n"), FILE_CONTEXTS.to_owned(), "/bin/sh: no line of --fs-config"),
        (
            FS_CONFIG.to_owned(),
            FILE_CONTEXTS.replace("/system(/.*)?", "/system/etc(/.*)?"),
            "/: no line of --file-contexts",
        ),
    ] {
        fs::write(path.join("fs_config"), config).expect("a file");
        fs::write(path.join("file_contexts"), contexts).expect("a file");
        let told = mkfs(path, "i", &BOTH);
        assert!(told.status == Some(2) && told.stderr.contains(expected), "{expected}: {}", told.stderr);
        assert!(!path.join("i").exists());
    }
    let told = mkfs(path, "i", &["--fs-config", "nothing"]);
    assert!(told.status == Some(2) && told.stderr.contains("--fs-config nothing: cannot read"), "{}", told.stderr);
    let told = mkfs(path, "i", &["--fs-config", "fs_config", "--mount-point", "a/../b"]);
    assert!(told.status == Some(2) && told.stderr.contains("--mount-point: "), "{}", told.stderr);
}

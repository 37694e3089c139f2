//! Files that the host limits to a few hundred bytes.
//!
//! A test binary of its own: a process being started inherits the locks of all open files, and a
//! concurrent test that opens a file twice would find it in use.

use nandkit_block::{BlockGeometry, ErrorKind, JournalledFile};
use tempfile::TempDir;

fn geometry() -> BlockGeometry {
    BlockGeometry { sector_size: 512, sectors: 16, preferred_size: 4096, recycling_size: 8192 }
}

#[test]
#[cfg(unix)]
fn a_file_that_cannot_be_made_whole_is_not_left() {
    const INSIDE: &str = "NANDKIT_TEST_WITH_SHORT_FILES";
    if std::env::var_os(INSIDE).is_none() {
        // Runs the test again in a process whose files are limited to a few hundred bytes, and
        // which is not killed when they would exceed that.
        let script = "trap '' XFSZ; ulimit -f 1; exec \"$0\" --exact a_file_that_cannot_be_made_whole_is_not_left";
        let program = std::env::current_exe().unwrap();
        // The output must not go into a file, as the outer process's output may, and it would be
        // too long.
        let output = std::process::Command::new("sh").args(["-c", script]).arg(program).env(INSIDE, "1").output();
        let output = output.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        return;
    }
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("device");
    assert_eq!(JournalledFile::create(&path, geometry()).unwrap_err().kind, ErrorKind::Io);
    assert!(!path.exists());
    std::fs::write(&path, b"somebody's").unwrap();
    JournalledFile::create(&path, geometry()).unwrap_err();
    assert_eq!(std::fs::read(&path).unwrap(), b"somebody's");
}

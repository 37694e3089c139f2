//! Images that are mounted by the binary. Needs root or fusermount3, and /dev/fuse.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// How often a busy volume is unmounted again, and how long is waited between.
const UNMOUNTS: u32 = 500;
const BUSY: std::time::Duration = std::time::Duration::from_millis(20);

/// Mounts whose process was killed, as long as they are there: `nandkit doctor --clean` of one test
/// removes the dead mounts of all tests.
static DEAD: RwLock<()> = RwLock::new(());

/// Held from a kill on until the test itself has taken the dead mount away.
pub fn dead_mount() -> RwLockReadGuard<'static, ()> {
    DEAD.read().unwrap_or_else(PoisonError::into_inner)
}

/// Held from a kill on until the dead mount, and all others, are cleaned away.
pub fn cleaning_dead_mounts() -> RwLockWriteGuard<'static, ()> {
    DEAD.write().unwrap_or_else(PoisonError::into_inner)
}

/// A mount in the foreground of its own process.
pub struct Mount {
    child: Child,
    /// Where it is mounted.
    pub point: PathBuf,
}

impl Mount {
    /// Mounts `image` of a directory on its directory `mnt`.
    pub fn start(directory: &Path, image: &str, arguments: &[&str]) -> Self {
        let point = directory.join("mnt");
        std::fs::create_dir_all(&point).expect("a directory");
        // Whoever runs the tests in a shell's background hands down that Ctrl-C is ignored, and
        // nandkit leaves such signals alone.
        let mut child = Command::new("env")
            .args(["--default-signal=HUP,INT,QUIT,TERM", env!("CARGO_BIN_EXE_nandkit")])
            .args(["mount", image, "mnt", "--foreground"])
            .args(arguments)
            .current_dir(directory)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        // It says so once programs can use it; without FUSE it says that, and the test fails.
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().expect("a pipe")).read_line(&mut line).expect("text");
        assert!(line.contains(" at "), "not mounted: {line}");
        Self { child, point }
    }

    /// The process that serves it.
    pub fn id(&self) -> i32 {
        self.child.id() as i32
    }

    /// Unmounts, and waits for the exit status. A process that another test is about to start has
    /// this one's open files until it executes its program: the volume is busy for that moment.
    pub fn unmount(self) -> Option<i32> {
        for _ in 0..UNMOUNTS {
            let output = Command::new("umount").env("LC_ALL", "C").arg(&self.point).output().expect("umount runs");
            if output.status.success() {
                return self.wait();
            }
            let told = String::from_utf8_lossy(&output.stderr);
            assert!(told.contains("busy"), "umount {}: {told}", self.point.display());
            std::thread::sleep(BUSY);
        }
        panic!("umount {}: busy", self.point.display());
    }

    /// Sends a signal to the process.
    pub fn signal(&self, name: &str) {
        let status = Command::new("kill").args([&format!("-{name}"), &self.id().to_string()]).status();
        assert!(status.expect("kill runs").success());
    }

    /// Waits for the exit status.
    pub fn wait(mut self) -> Option<i32> {
        self.child.wait().expect("it ends").code()
    }
}

impl Drop for Mount {
    /// After a test that failed.
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = Command::new("umount").arg("-l").arg(&self.point).status();
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

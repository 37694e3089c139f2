//! Drafts of atomic writes while nothing can be made durable. Needs root, /dev/fuse and perl.

use std::fs;
use std::process::Command;
use std::time::Duration;

use nandkit_fuse::{CommitLimit, Options, Session, Timing, Volume, check_mount_point};
use nandkit_units::{Clock, Payload};
use nandkit_vfs::model::{ModelFileSystem, ModelOptions};
use nandkit_vfs::wrap::{Call, Hook, Method, Wrapped};
use nandkit_vfs::{Changes, ErrorKind, FileSystem, FsError, NewNode};

struct NoSync;

impl Hook for NoSync {
    fn before(&self, call: &Call<'_>) -> nandkit_vfs::Result<()> {
        match call.method {
            Method::Sync => Err(FsError::new(ErrorKind::NoSpace, "planned")),
            _ => Ok(()),
        }
    }
}

/// The model, whose syncs fail from the first one on.
struct Full(Wrapped<ModelFileSystem, NoSync>);

impl Volume for Full {
    fn fs(&self) -> &dyn FileSystem {
        &self.0
    }

    fn changes(&mut self) -> Option<&mut dyn Changes> {
        self.0.changes()
    }
}

fn with_file() -> Full {
    let mut model = ModelFileSystem::new(ModelOptions::POSIX, Clock::default());
    let root = model.root();
    let file = model.create(root, b"f", &NewNode { mode: 0o666, ..NewNode::FILE }).expect("a file");
    Changes::write(&mut model, file, 0, Payload::Bytes(b"old")).expect("its content");
    Full(Wrapped::new(model, NoSync))
}

/// Each write is followed by a sync, which fails: from then on, changes are refused for a second.
/// Requests are those of uapi/linux/f2fs.h.
const SCRIPT: &str = r#"
use strict; use Fcntl;
sysopen(my $file, "mnt/f", O_RDWR) or die "open: $!";
sub ask { ioctl($file, $_[0], 0) ? "done" : $! + 0 }
my $begun = ask(0xf501);
syswrite($file, "new content") or die "write: $!";
my $told = join " ", $begun, syswrite($file, "more") // $! + 0, ask(0xf502), ask(0xf505);
sysseek($file, 0, 0); sysread($file, my $all, 100);
print "$told $all";
"#;

/// What gives back space is done where nothing else is.
#[test]
fn a_draft_is_dropped_while_syncs_fail() {
    let directory = tempfile::tempdir().expect("a directory");
    fs::create_dir(directory.path().join("mnt")).expect("a directory");
    let point = check_mount_point(&directory.path().join("mnt")).expect("a mount point");
    // A write of 11 bytes reaches the limit, the beginning of a draft does not.
    let commit = Some(CommitLimit { bytes: 8, every: Duration::from_secs(3600) });
    let options = Options { commit, timing: Timing::Calendar(Clock::default()), ..Options::default() };
    let session = Session::mount(with_file(), &point, options).expect("mounted");
    let unmounter = session.unmounter();
    let serving = std::thread::spawn(move || session.run());
    let output = Command::new("timeout").args(["60", "perl", "-e", SCRIPT]).current_dir(directory.path()).output();
    unmounter.unmount().expect("unmounted");
    let ended = serving.join().expect("it ends");
    directory.close().expect("removed");
    let output = output.expect("perl (Debian package perl-base)");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // ENOSPC is 28.
    assert_eq!(String::from_utf8_lossy(&output.stdout), "done 28 28 done old");
    assert!(ended.trouble.is_some_and(|trouble| trouble.contains("could not be made durable")));
}

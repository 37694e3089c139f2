//! F2FS's atomic writes through a mount, as a program asks for them with ioctl(2): perl is the
//! program.

use std::path::Path;
use std::process::Command;

use crate::common::mounted::{Mount, dead_mount};
use crate::common::{nandkit, succeeds};

/// Requests by their names in uapi/linux/f2fs.h, and how they and their answers are printed.
const PRELUDE: &str = r#"
use strict; use Fcntl;
my %number = (start => 0xf501, commit => 0xf502, abort => 0xf505);
sub ask { my ($file, $what) = @_; ioctl($file, $number{$what}, 0) or return "$what: " . ($! + 0); "$what: done" }
sub opened { my ($flags) = @_; sysopen(my $file, "mnt/f", $flags) or die "open: $!"; $file }
sub put { my ($file, $at, $bytes) = @_; sysseek($file, $at, 0); syswrite($file, $bytes) == length $bytes or die "write: $!" }
sub is { my ($file) = @_; sysseek($file, 0, 0); my $all = ""; 1 while sysread($file, $all, 4096, length $all);
  (my $short = $all) =~ s/(.)\1*/$1/gs; length($all) . "$short " . -s "mnt/f" }
"#;

fn perl(directory: &Path, script: &str) -> String {
    let output = Command::new("perl").arg("-e").arg(format!("{PRELUDE}{script}")).current_dir(directory).output();
    let output = output.expect("perl (Debian package perl-base)");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text.trim().to_owned()
}

fn with_volume() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::create_dir(directory.path().join("mnt")).expect("a mount point");
    std::fs::write(directory.path().join("f"), "o".repeat(10_000)).expect("a file");
    succeeds(directory.path(), &["mkfs", "f2fs", "--size", "64M", "i"]);
    succeeds(directory.path(), &["put", "i", "f", "/f"]);
    directory
}

#[test]
fn a_draft_is_dropped_by_abort_and_by_the_end_of_its_file() {
    let directory = with_volume();
    let path = directory.path();
    let mount = Mount::start(path, "i", &["--rw"]);
    let features =
        perl(path, r#"my $f = opened(O_RDONLY); my $b = "\0" x 4; ioctl($f, 0x8004f50c, $b); print unpack("V", $b)"#);
    assert_eq!(features, "4");
    let told = perl(
        path,
        r#"my ($a, $b, $r) = (opened(O_RDWR), opened(O_RDWR), opened(O_RDONLY));
        print is($r), "\n", ask($r, "start"), "\n", ask($a, "start"), "\n", ask($a, "start"), "\n", ask($b, "start"), "\n";
        put($a, 5000, "n" x 8000);
        print is($a), "\n", is($r), "\n", ask($a, "abort"), "\n", is($a), "\n", is($r), "\n", ask($a, "abort"), "\n";
        print ask($b, "start"), "\n"; put($b, 0, "m" x 20000); print is($a), "\n"; close $b;
        # The kernel tells the end of a file in its own time.
        for (1 .. 200) { last if is($a) =~ /^10000/; select(undef, undef, undef, 0.05) } print is($a), "\n";
        put($a, 9999, "p"); print is($r), "\n""#,
    );
    let expected = [
        "10000o 10000",
        "start: 9",
        "start: done",
        "start: done",
        "start: 16",
        "13000on 13000",
        "13000on 13000",
        "abort: done",
        "10000o 10000",
        "10000o 10000",
        "abort: done",
        "start: done",
        "20000m 20000",
        "10000o 10000",
        "10000op 10000",
    ];
    assert_eq!(told.lines().collect::<Vec<_>>(), expected);
    assert_eq!(mount.unmount(), Some(0));
    succeeds(path, &["check", "i"]);
    assert_eq!(succeeds(path, &["cat", "i", "/f"]), "o".repeat(9_999) + "p");
}

#[test]
fn a_commit_is_whole_behind_a_crash_and_what_was_not_committed_is_not_there() {
    let directory = with_volume();
    let path = directory.path();
    let mount = Mount::start(path, "i", &["--rw"]);
    let told = perl(
        path,
        r#"my $f = opened(O_RDWR); utime(1, 1, $f); ask($f, "start"); put($f, 0, "a" x 12288); stat($f); print ask($f, "commit"), "\n", is($f), "\n";
        print((stat("mnt/f"))[9] > 1000 ? "new time\n" : "old time\n");
        print ask($f, "start"), "\n"; put($f, 4096, "b" x 16384);
        # Everything else is made durable: the draft is not what the file is.
        open(my $other, ">", "mnt/other"); print $other "x"; close $other; system("sync", "mnt/other") == 0 or die;
        print is($f), "\n""#,
    );
    assert_eq!(told, "commit: done\n12288a 12288\nnew time\nstart: done\n20480ab 20480");
    let dead = dead_mount();
    mount.signal("KILL");
    let _ = mount.wait();
    assert!(Command::new("umount").args(["-l", "mnt"]).current_dir(path).status().expect("umount runs").success());
    drop(dead);
    assert_eq!(succeeds(path, &["cat", "i", "/f"]), "a".repeat(12_288));
    succeeds(path, &["check", "i"]);
}

#[test]
fn volumes_without_atomic_writes_do_not_know_the_requests() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    std::fs::create_dir(path.join("mnt")).expect("a mount point");
    let script = format!(r#"{PRELUDE} my $f = opened(O_RDWR|O_CREAT); print ask($f, "start"), " ", ask($f, "commit")"#);
    std::fs::write(path.join("script"), script.replace("mnt/f", "f")).expect("a script");
    for fs in ["fat", "jffs2"] {
        let script = path.join("script");
        let told = nandkit(
            path,
            &["exec", "--fs", fs, "--device", "nandsim-32m-128k", "--", "perl", script.to_str().expect("a name")],
        );
        assert!(told.stdout.contains("start: 25 commit: 25"), "{fs}: {}{}", told.stdout, told.stderr);
    }
}

/// Linux drops the draft of a process that dies before its locks go: who waited for them reads and
/// writes the file itself.
#[test]
fn the_draft_of_a_process_that_dies_is_gone_before_anybody_can_see_it() {
    let directory = with_volume();
    let path = directory.path();
    let mount = Mount::start(path, "i", &["--rw"]);
    let told = perl(
        path,
        r#"my $again = opened(O_RDWR);
        for my $round (1 .. 30) {
            pipe(my $r, my $w);
            my $child = fork // die;
            if (!$child) {
                my $f = opened(O_RDWR); ask($f, "start") eq "start: done" or die; put($f, 0, "n" x 20000);
                # Who only has it, too, and ends, is not who began it.
                system("true"); my $other = fork // die; if (!$other) { exit 0 } waitpid($other, 0);
                syswrite($w, is($f) . "\n"); sleep 100;
            }
            close $w; my $seen = <$r>; $seen eq "20000n 20000\n" or die $seen;
            kill("KILL", $child); waitpid($child, 0);
            my ($now, $begun) = (is($again), ask($again, "start"));
            $now eq "10000o 10000" && $begun eq "start: done" or die "$round: $now $begun";
            ask($again, "abort");
        }
        print "as it was""#,
    );
    assert_eq!(told, "as it was");
    assert_eq!(mount.unmount(), Some(0));
    succeeds(path, &["check", "i"]);
}

#[test]
fn a_draft_is_its_owners_alone() {
    let directory = with_volume();
    let path = directory.path();
    let mount = Mount::start(path, "i", &["--rw"]);
    let told = perl(
        path,
        r#"chmod(0666, "mnt/f"); my $f = opened(O_RDWR); ask($f, "start"); put($f, 0, "n" x 9000);
        $> = 65534; my $g = opened(O_RDWR); print join(", ", ask($g, "start"), ask($g, "commit"), ask($g, "abort")), "\n";
        $> = 0; print is($f), "\n", ask($f, "commit"), "\n", is($g)"#,
    );
    assert_eq!(told, "start: 13, commit: 13, abort: 13\n10000no 10000\ncommit: done\n10000no 10000");
    assert_eq!(mount.unmount(), Some(0));
}

/// What a mapping changed before a draft is the file's, what it changed meanwhile is the draft's.
/// Python is the program, as perl has no mmap(2).
#[test]
fn mappings_beside_a_draft_go_where_writes_go() {
    let directory = with_volume();
    let path = directory.path();
    let mount = Mount::start(path, "i", &["--rw"]);
    let script = r#"
import fcntl, mmap, os
START, COMMIT, ABORT = 0xf501, 0xf502, 0xf505
file = os.open("mnt/f", os.O_RDWR)
mapped = mmap.mmap(file, 10000)
def told(what):
    with open("mnt/f", "rb") as again: bytes = again.read()
    print(what, len(bytes), "".join(chr(bytes[at]) for at in (0, 5000, 9000)), "".join(chr(mapped[at]) for at in (0, 5000, 9000)))
mapped[0:1] = b"a"
fcntl.ioctl(file, START, 0)
mapped[5000:5001] = b"b"
os.pwrite(file, b"c", 9000)
told("draft")
fcntl.ioctl(file, ABORT, 0)
told("dropped")
fcntl.ioctl(file, START, 0)
mapped[5000:5001] = b"d"
os.pwrite(file, b"e", 9000)
fcntl.ioctl(file, COMMIT, 0)
told("committed")
mapped[5000:5001] = b"f"
mapped.flush()
told("behind")
"#;
    let output = Command::new("timeout").args(["60", "python3", "-c", script]).current_dir(path).output();
    let output = output.expect("python3 runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let expected = ["draft 10000 abc abc", "dropped 10000 aoo aoo", "committed 10000 ade ade", "behind 10000 afe afe"];
    assert_eq!(text.lines().collect::<Vec<_>>(), expected);
    assert_eq!(mount.unmount(), Some(0));
    succeeds(path, &["check", "i"]);
}

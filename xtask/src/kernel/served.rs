//! `cargo xtask kernel serve`: Linux puts file systems of its own on `nandkit serve`'s exports, and
//! its own checkers judge what is left: after a clean end, after the servers were told to end, and
//! after guest and servers were killed in the middle of writing.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use nandkit_judges::FSCK_F2FS_MARKS;

use super::guest::Guest;
use super::ours::Nandkit;
use super::trial::{KEEP, Trial};
use crate::options::Options;
use crate::process;

/// Longest time of a guest: far more than any takes on a loaded machine.
const TIMEOUT: Duration = Duration::from_secs(1500);

/// A file system of Linux on a translation layer of nandkit's.
struct Export {
    fs: &'static str,
    ftl: &'static [&'static str],
    mkfs: &'static str,
    /// Exits with 0 where the volume is whole, and changes nothing.
    fsck: &'static str,
}

const EXPORTS: [Export; 2] = [
    Export {
        fs: "ext4",
        ftl: &["--device", "slc-256m", "--ftl", "fast"],
        mkfs: "mkfs.ext4 -q -F",
        fsck: "e2fsck -f -n",
    },
    Export {
        fs: "f2fs",
        ftl: &["--device", "slc-256m", "--ftl", "block-map"],
        mkfs: "mkfs.f2fs -q -f",
        fsck: "fsck.f2fs --dry-run",
    },
];

/// A running server, with the chip that it keeps.
struct Server {
    child: Child,
    uri: String,
}

impl Server {
    fn start(nandkit: &Nandkit, work: &Path, export: &Export) -> Result<Self> {
        let socket = work.join(format!("{}.sock", export.fs));
        let mut command = nandkit.command();
        command.arg("serve").arg("--socket").arg(&socket).args(export.ftl);
        command.arg("--state").arg(work.join(format!("{}.nand", export.fs)));
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        // The server prints its address once it listens.
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("no output")?).read_line(&mut line)?;
        ensure!(line.contains("nbd+unix"), "nandkit serve did not begin: {line}");
        Ok(Self { child, uri: format!("nbd+unix:///?socket={}", socket.display()) })
    }

    /// Ends it as an init system does.
    fn end(mut self) -> Result<()> {
        process::output(Command::new("kill").args(["-TERM", &self.child.id().to_string()]))?;
        let status = self.child.wait()?;
        ensure!(status.success(), "nandkit serve ended with {status}");
        Ok(())
    }

    /// Ends it as a power cut does.
    fn kill(mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It has ended already unless something failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A run on a served volume.
struct Served<'a> {
    trial: &'a Trial,
    nandkit: Nandkit,
    mib: u64,
    seed: u64,
    files: usize,
}

/// Runs the trial and prints what it saw; an error where something does not hold.
pub fn run(arguments: &[String]) -> Result<bool> {
    let options = Options::parse(arguments, &[KEEP], &["--seed", "--mib", "--files", "--nandkit"], 0)?;
    Trial::run("serve", &options, |trial| {
        let served = Served {
            trial,
            nandkit: Nandkit::find(&options)?,
            mib: options.number("--mib", 100)?,
            seed: options.number("--seed", 1)?,
            files: usize::try_from(options.number("--files", 30)?)?,
        };
        served.run()
    })
}

impl Served<'_> {
    fn run(&self) -> Result<()> {
        let written = self.boot("written", &self.script_written())?;
        println!("made, filled, changed ({} MiB each) and mounted again: {written:.0} s", self.mib);
        let again = self.boot("again", &self.script_again())?;
        for export in &EXPORTS {
            let listing = |name: &str| self.trial.manifest(export.fs, name);
            let before = listing("before")?;
            before.must_equal(&listing("after")?, &format!("{}: before the unmount / after it", export.fs))?;
            before.must_equal(&listing("again")?, &format!("{}: before the servers' end / after it", export.fs))?;
            println!("{}: {} entries, the same each time, and whole to its checker", export.fs, before.len());
        }
        println!("the servers ended and began again: {again:.0} s");
        self.cut()
    }

    /// Guest and servers are killed when enough files were synced; what was is there afterwards.
    fn cut(&self) -> Result<()> {
        let servers = self.serve()?;
        let told = self.trial.work.join("synced");
        let count = || fs::read_to_string(&told).map_or(0, |text| text.lines().count());
        self.guest("cut", &servers).cut(&self.script_syncing(), || count() >= self.files)?;
        servers.into_iter().try_for_each(Server::kill)?;
        let synced = count();
        let after = self.boot("after-cut", &self.script_after_cut())?;
        println!(
            "killed in the middle: {synced} synced files are there, and all is whole to the checkers: {after:.0} s"
        );
        Ok(())
    }

    fn serve(&self) -> Result<Vec<Server>> {
        EXPORTS.iter().map(|export| Server::start(&self.nandkit, &self.trial.work, export)).collect()
    }

    fn guest(&self, name: &str, servers: &[Server]) -> Guest<'_> {
        let guest = Guest::new(&self.trial.kernel, &format!("serve-{name}")).share(&self.trial.work).timeout(TIMEOUT);
        let guest = EXPORTS.iter().fold(guest, |guest, export| guest.module(export.fs));
        servers.iter().fold(guest, |guest, server| guest.durable_disk(&server.uri))
    }

    /// Boots on fresh servers, runs the script, and tells the servers to end; seconds.
    fn boot(&self, name: &str, script: &str) -> Result<f64> {
        let servers = self.serve()?;
        let outcome = self.guest(name, &servers).run(script)?.success()?;
        servers.into_iter().try_for_each(Server::end)?;
        Ok(outcome.took.as_secs_f64())
    }

    fn script_written(&self) -> String {
        each(|export, disk| {
            let (fs, mkfs) = (export.fs, export.mkfs);
            let (seed, mib) = (self.seed, self.mib);
            format!(
                "{mkfs} {disk}\nmount -t {fs} -o discard {disk} /mnt\nhelper churn /mnt {seed} 60 {mib}\n\
                 sync\nhelper manifest /mnt >/share/{fs}.before\numount /mnt\n{}\
                 mount -t {fs} {disk} /mnt\nhelper manifest /mnt >/share/{fs}.after\numount /mnt\n",
                whole(export, disk)
            )
        })
    }

    fn script_again(&self) -> String {
        each(|export, disk| {
            let fs = export.fs;
            format!(
                "{}mount -t {fs} {disk} /mnt\nhelper manifest /mnt >/share/{fs}.again\numount /mnt\n",
                whole(export, disk)
            )
        })
    }

    /// Files one after the other, in turn on each; what is synced is told in the shared folder,
    /// which outlives the guest.
    fn script_syncing(&self) -> String {
        let mounts = each(|export, disk| format!("mkdir -p /run/{0}\nmount -t {0} {disk} /run/{0}\n", export.fs));
        let names = EXPORTS.map(|export| export.fs).join(" ");
        format!(
            "{mounts}rm -f /share/synced\nnumber=0\nwhile true; do\nfor fs in {names}; do\n\
             dd if=/dev/urandom of=/run/$fs/synced$number bs=70001 count=1 conv=fsync 2>/dev/null\n\
             (cd /run/$fs && sha256sum synced$number | sed \"s|synced|$fs/synced|\") >>/share/synced\n\
             dd if=/dev/urandom of=/run/$fs/loose$number bs=20000 count=1 2>/dev/null\n\
             done\nnumber=$((number + 1))\ndone\n"
        )
    }

    fn script_after_cut(&self) -> String {
        let first = each(|export, disk| {
            // Mounting replays the journal, or rolls forward.
            format!("mkdir -p /run/{0}\nmount -t {0} {disk} /run/{0}\n", export.fs)
        });
        let last = each(|export, disk| format!("umount /run/{}\n{}", export.fs, whole(export, disk)));
        format!("{first}(cd /run && sha256sum -c /share/synced)\n{last}")
    }
}

/// A script for each export.
fn each(script: impl Fn(&Export, &str) -> String) -> String {
    EXPORTS.iter().zip(["/dev/vda", "/dev/vdb"]).map(|(export, disk)| script(export, disk)).collect()
}

/// The checker's verdict; what it said is in the output where it is not content.
fn whole(export: &Export, disk: &str) -> String {
    let fsck = export.fsck;
    // The exit status of fsck.f2fs does not tell all.
    let marks = FSCK_F2FS_MARKS.map(|mark| format!("-e '{mark}'")).join(" ");
    format!(
        "{fsck} {disk} >/run/fsck 2>&1 || {{ cat /run/fsck; exit 1; }}\n\
         if grep -F {marks} /run/fsck; then cat /run/fsck; exit 1; fi\n"
    )
}

//! One boot of real Linux under QEMU: a script, its disks and modules, and its result.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::build::Kernel;
use crate::process;

/// QEMU's exit status where the guest ended itself: isa-debug-exit makes `2 * code + 1` of the
/// code, which is 16 in guest/init.sh.
const ENDED: i32 = 33;

/// Bits of /proc/sys/kernel/tainted that say that the kernel found itself broken: a bad page (5),
/// an oops (7), a warning (9), a soft lockup (14).
const BROKEN: u64 = 1 << 5 | 1 << 7 | 1 << 9 | 1 << 14;

/// Words of the kernel's log that it writes when it finds itself broken.
const TROUBLE: [&str; 10] = [
    "BUG:",
    "WARNING:",
    "Oops:",
    "Kernel panic",
    "kernel BUG at",
    "general protection fault",
    "Call Trace:",
    "INFO: task ",
    "soft lockup",
    "rcu: INFO:",
];

/// A guest to be booted.
#[derive(Clone, Debug)]
pub struct Guest<'a> {
    kernel: &'a Kernel,
    name: String,
    disks: Vec<String>,
    share: Option<PathBuf>,
    modules: Vec<String>,
    timeout: Duration,
}

/// The result of a guest whose kernel reported no trouble.
#[derive(Clone, Debug)]
pub struct GuestRun {
    /// The script's exit status.
    pub status: i32,
    /// What the script printed, standard error included.
    pub output: String,
    /// The kernel's log.
    pub log: String,
    /// From QEMU's start to its end.
    pub took: Duration,
}

impl GuestRun {
    /// The output of a script that ended with status 0; otherwise an error that holds output and
    /// log.
    pub fn success(self) -> Result<Self> {
        if self.status != 0 {
            bail!(
                "the guest's script ended with status {}\n{}\nkernel log:\n{}",
                self.status,
                self.output,
                end(&self.log)
            );
        }
        Ok(self)
    }
}

impl<'a> Guest<'a> {
    /// A guest without disks or folders. The name is for messages and for the directory of its
    /// logs.
    pub fn new(kernel: &'a Kernel, name: &str) -> Self {
        Self {
            kernel,
            name: name.to_owned(),
            disks: Vec::new(),
            share: None,
            modules: Vec::new(),
            timeout: Duration::from_secs(120),
        }
    }

    /// Adds a raw file as the next of /dev/vda, /dev/vdb, ...; `nbd+unix:///?socket=PATH` works as
    /// well.
    pub fn disk(mut self, source: &str) -> Self {
        self.disks.push(format!("{source},cache=unsafe"));
        self
    }

    /// Adds a disk, as [`Guest::disk`] does, that flushes and discards reach.
    pub fn durable_disk(mut self, source: &str) -> Self {
        self.disks.push(format!("{source},cache=writeback,discard=unmap"));
        self
    }

    /// Shows a directory of the host as /share.
    pub fn share(mut self, directory: &Path) -> Self {
        self.share = Some(directory.to_owned());
        self
    }

    /// Loads a module, with its parameters behind its name, before the script.
    pub fn module(mut self, line: &str) -> Self {
        self.modules.push(line.to_owned());
        self
    }

    /// How long QEMU may run, 120 s if not said otherwise.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Boots, runs the script with busybox's `sh -e`, and ends. An error where the machine did not
    /// end by itself in time, or where the kernel found itself broken; then the logs stay in the
    /// directory that the error names.
    pub fn run(&self, script: &str) -> Result<GuestRun> {
        let job = self.prepare(script)?;
        let start = Instant::now();
        let ended = self.boot(&job, || false).and_then(|()| self.judge(&job, start.elapsed()));
        self.tidy(&job, ended)
    }

    /// Boots, runs the script, and kills the machine once `due` says so. An error where it ended
    /// before.
    pub fn cut(&self, script: &str, due: impl Fn() -> bool) -> Result<()> {
        let job = self.prepare(script)?;
        let was_due = std::cell::Cell::new(false);
        let ended = self.boot(&job, || {
            was_due.set(was_due.get() || due());
            was_due.get()
        });
        let ended = match ended {
            Ok(()) if !was_due.get() => Err(anyhow::anyhow!("the script came to its end before it was cut")),
            ended => ended,
        };
        self.tidy(&job, ended)
    }

    /// The directory of a run, with the script in it.
    fn prepare(&self, script: &str) -> Result<PathBuf> {
        static RUNS: AtomicU64 = AtomicU64::new(0);
        let number = RUNS.fetch_add(1, Ordering::Relaxed);
        let job = self.kernel.directory.join("runs").join(format!("{}-{}-{number}", self.name, std::process::id()));
        fs::create_dir_all(&job)?;
        fs::write(job.join("script"), script)?;
        let modules: String = self.modules.iter().map(|line| format!("{line}\n")).collect();
        fs::write(job.join("modules"), modules)?;
        Ok(job)
    }

    /// Removes the directory of a run that went well, and says what is in that of another.
    fn tidy<T>(&self, job: &Path, ended: Result<T>) -> Result<T> {
        match ended {
            Ok(outcome) => {
                fs::remove_dir_all(job)?;
                Ok(outcome)
            }
            Err(error) => {
                let console = text(&job.join("console"));
                let output = text(&job.join("output"));
                let place = job.display();
                Err(error.context(format!(
                    "guest {}: logs in {place}\noutput:\n{}\nconsole:\n{}",
                    self.name,
                    end(&output),
                    end(&console)
                )))
            }
        }
    }

    /// Runs QEMU to its end, or until it is to be killed.
    fn boot(&self, job: &Path, is_due: impl Fn() -> bool) -> Result<()> {
        let mut qemu = self.command(job)?;
        let errors = fs::File::create(job.join("qemu"))?;
        let mut child =
            qemu.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors).spawn().context("cannot start QEMU")?;
        let start = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            if is_due() {
                child.kill()?;
                child.wait()?;
                return Ok(());
            }
            if start.elapsed() > self.timeout {
                child.kill()?;
                child.wait()?;
                bail!("no end within {} s", self.timeout.as_secs());
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        if status.code() != Some(ENDED) {
            bail!("QEMU ended with {status}: {}", text(&job.join("qemu")).trim());
        }
        Ok(())
    }

    fn command(&self, job: &Path) -> Result<Command> {
        let program = process::find("qemu-system-x86_64").context("qemu-system-x86_64 is missing")?;
        let mut qemu = Command::new(program);
        // Never with hardware virtualisation: nested, as most machines of continuous integration
        // have it, it may hang. One processor: with two, setting a probe can hang where the
        // emulator's threads wait for one another on a loaded host.
        qemu.args(["-M", "pc,vmport=off", "-accel", "tcg", "-cpu", "max", "-smp", "1", "-nodefaults"]);
        qemu.args(["-display", "none", "-no-reboot", "-device", "isa-debug-exit,iobase=0xf4,iosize=0x04"]);
        qemu.args(["-m", "1024"]);
        qemu.arg("-kernel").arg(self.kernel.vmlinux()).arg("-initrd").arg(self.kernel.initramfs());
        qemu.arg("-append").arg(
            "console=ttyS0 panic=-1 oops=panic rdinit=/init random.trust_cpu=on mitigations=off nokaslr tsc=reliable \
             no_timer_check noreplace-smp quiet log_buf_len=4M nowatchdog sysctl.kernel.hung_task_timeout_secs=0 rcupdate.rcu_cpu_stall_suppress=1",
        );
        qemu.arg("-serial").arg(format!("file:{}", job.join("console").display()));
        for disk in &self.disks {
            qemu.arg("-drive").arg(format!("file={disk},format=raw,if=virtio"));
        }
        let folders = [("job", Some(job)), ("share", self.share.as_deref())];
        for (tag, path) in folders.iter().filter_map(|(tag, path)| Some((tag, (*path)?))) {
            let path = path.display();
            qemu.arg("-virtfs").arg(format!("local,path={path},mount_tag={tag},security_model=none,multidevs=remap"));
        }
        Ok(qemu)
    }

    /// Reads what the guest left in the job folder.
    fn judge(&self, job: &Path, took: Duration) -> Result<GuestRun> {
        let (output, log) = (text(&job.join("output")), text(&job.join("log")));
        if let Some(line) = log.lines().chain(text(&job.join("console")).lines()).find(|line| is_trouble(line)) {
            bail!("the kernel found itself broken: {line}");
        }
        let tainted: u64 = text(&job.join("tainted")).trim().parse().context("the guest did not come to its end")?;
        if tainted & BROKEN != 0 {
            bail!("the kernel found itself broken: tainted {tainted}");
        }
        let status = text(&job.join("status")).trim().parse().context("a module could not be loaded")?;
        Ok(GuestRun { status, output, log, took })
    }
}

fn is_trouble(line: &str) -> bool {
    TROUBLE.iter().any(|word| line.contains(word))
}

fn text(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}

/// The last lines of a text, enough to see what went wrong.
fn end(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.len().saturating_sub(60);
    lines.get(from..).unwrap_or_default().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_kernel_is_seen_in_its_log() {
        for line in [
            "[    2.1] WARNING: CPU: 0 PID: 70 at fs/jffs2/gc.c:138 jffs2_garbage_collect_pass+0x1/0x2 [jffs2]",
            "[    2.1] kernel BUG at fs/jffs2/nodemgmt.c:77!",
            "[    2.1] BUG: kernel NULL pointer dereference, address: 0000000000000000",
            "[    9.0] Kernel panic - not syncing: Fatal exception",
        ] {
            assert!(is_trouble(line), "{line}");
        }
        assert!(!is_trouble("[    1.0] jffs2: version 2.2. (NAND) (SUMMARY)  \u{a9} 2001-2006 Red Hat, Inc."));
    }
}

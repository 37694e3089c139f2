//! `cargo xtask door-speed`: the cost of the doors, compared with other programs. NBD beside
//! `nbdkit memory` under the same fio, and what an idle mount takes. The FUSE door's own bench is
//! `doors` of nandkit-cli. Figures depend on the machine: none of this is a test, and
//! docs/guide/speed.md keeps the last ones.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::judges::{self, Judge};
use crate::kernel::Nandkit;
use crate::options::{Options, Unusable};
use crate::process;

const TOOLS: [Judge; 2] = [Judge { tool: "fio", package: "fio" }, Judge { tool: "nbdkit", package: "nbdkit" }];

/// Kind of request, its bytes, queue depth.
const LOADS: [(&str, &str, u32); 6] = [
    ("randread", "4k", 32),
    ("randwrite", "4k", 32),
    ("read", "1M", 1),
    ("write", "1M", 1),
    ("read", "1M", 4),
    ("write", "1M", 4),
];

/// The least speed: in small requests as a share of `nbdkit memory`'s, in large requests in bytes a
/// second.
const LEAST_RATIO: f64 = 0.8;
const LEAST_BYTES: f64 = 1e9;
/// Bytes that a mounted image may take.
const MOST_RESIDENT: u64 = 64 << 20;

/// The task.
pub fn run(arguments: &[String]) -> Result<bool> {
    let options = Options::parse(arguments, &[], &["--rounds", "--seconds", "--nandkit", "--image"], 1)?;
    match options.words().first().map(String::as_str) {
        Some("nbd") => nbd(&options),
        Some("idle") => idle(&options),
        _ => bail!(Unusable("door-speed: name one of nbd, idle".into())),
    }
}

/// A process that is killed when this is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn begin(command: &mut Command, socket: &Path) -> Result<Running> {
    let running = Running(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?);
    for _ in 0..100 {
        if socket.exists() {
            return Ok(running);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    bail!("no server at {}", socket.display())
}

fn nbd(options: &Options) -> Result<bool> {
    judges::provide_all(&TOOLS)?;
    let (rounds, seconds) = (options.number("--rounds", 5)?, options.number("--seconds", 4)?);
    let nandkit = Nandkit::find(options)?;
    let work = process::target_directory()?.join("door-speed");
    fs::create_dir_all(&work)?;
    let sockets = [work.join("nandkit.sock"), work.join("nbdkit.sock")];
    for socket in sockets.iter().filter(|socket| socket.exists()) {
        fs::remove_file(socket)?;
    }
    let mut serve = nandkit.command();
    serve.args(["serve", "--device", "ram", "--set", "stack.device.size=1GiB", "--socket"]).arg(&sockets[0]);
    let _ours = begin(&mut serve, &sockets[0])?;
    let nbdkit = process::find("nbdkit").context("nbdkit is gone")?;
    let _theirs = begin(Command::new(nbdkit).args(["-f", "memory", "1G", "-U"]).arg(&sockets[1]), &sockets[1])?;
    for socket in &sockets {
        fio(socket, ("write", "1M", 4), seconds)?;
    }
    let mut all_well = true;
    for load in LOADS {
        let (mut ours, mut theirs, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..rounds {
            let (a, b) = (fio(&sockets[0], load, seconds)?, fio(&sockets[1], load, seconds)?);
            ours.push(a);
            theirs.push(b);
            ratios.push(a / b);
        }
        let (ours, theirs, ratio) = (median(ours), median(theirs), median(ratios));
        let small = load.1 == "4k";
        all_well &= if small { ratio >= LEAST_RATIO } else { ours >= LEAST_BYTES };
        let unit = if small { 4096.0 * 1e3 } else { 1e6 };
        println!(
            "{} {} x{}: {:.0} {}, nbdkit {:.0}, ratio {ratio:.2}",
            load.0,
            load.1,
            load.2,
            ours / unit,
            if small { "thousand a second" } else { "MB/s" },
            theirs / unit
        );
    }
    Ok(all_well)
}

/// Bytes a second.
fn fio(socket: &Path, (kind, bytes, depth): (&str, &str, u32), seconds: u64) -> Result<f64> {
    let mut fio = Command::new("fio");
    fio.args(["--name=x", "--ioengine=nbd", "--size=512M", "--time_based", "--output-format=json"]);
    fio.arg(format!("--uri=nbd+unix:///?socket={}", socket.display()));
    fio.args([format!("--rw={kind}"), format!("--bs={bytes}"), format!("--iodepth={depth}")]);
    let told = process::output(fio.arg(format!("--runtime={seconds}")))?;
    // fio prints a greeting before the JSON.
    let report: Value = serde_json::from_str(told.get(told.find('{').unwrap_or(0)..).unwrap_or_default())?;
    let way = if kind.contains("read") { "read" } else { "write" };
    report["jobs"][0][way]["bw_bytes"].as_f64().context("fio told no bytes a second")
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Mounts an image of 1 GiB, and measures what its idle process takes.
fn idle(options: &Options) -> Result<bool> {
    let seconds = options.number("--seconds", 20)?;
    let nandkit = Nandkit::find(options)?;
    let work = process::target_directory()?.join("door-speed");
    let point = work.join("mount");
    fs::create_dir_all(&point)?;
    let images = match options.text("--image") {
        Some(image) => vec![image.into()],
        None => vec![full_jffs2(&nandkit, &work)?],
    };
    let mut all_well = true;
    for image in images {
        let mount = |command: &mut Command| process::output(command).map(drop);
        mount(nandkit.command().arg("mount").arg(&image).arg(&point))?;
        let found = process_of(&point)?;
        let before = cpu_ticks(found)?;
        std::thread::sleep(Duration::from_secs(seconds));
        let spent = cpu_ticks(found)? - before;
        let idle = resident(found)?;
        let names = process::output(Command::new("find").arg(&point))?.lines().count();
        process::output(Command::new("sh").arg("-c").arg("cat \"$0\"/* >/dev/null 2>&1 || true").arg(&point))?;
        let used = resident(found)?;
        mount(nandkit.command().arg("umount").arg(&point))?;
        println!(
            "{}: {names} names; idle {} MiB, {spent} ticks of CPU in {seconds} s; after a walk over all of it {} MiB",
            image.display(),
            idle >> 20,
            used >> 20
        );
        all_well &= idle < MOST_RESIDENT && spent == 0;
    }
    Ok(all_well)
}

/// A JFFS2 of 1 GiB with 200,000 nodes of all but incompressible data, and 20,000 names.
fn full_jffs2(nandkit: &Nandkit, work: &Path) -> Result<std::path::PathBuf> {
    let (tree, image) = (work.join("tree"), work.join("full.jffs2"));
    if image.exists() {
        return Ok(image);
    }
    let mut state = 88_172_645_463_325_252u64;
    let mut content = vec![0u8; 44 << 10];
    for directory in 0..200 {
        let place = tree.join(format!("d{directory}"));
        fs::create_dir_all(&place)?;
        for file in 0..100 {
            for word in content.chunks_exact_mut(8) {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                word.copy_from_slice(&state.to_le_bytes());
            }
            fs::File::create(place.join(format!("f{file}")))?.write_all(&content)?;
        }
    }
    let mut mkfs = nandkit.command();
    mkfs.args(["mkfs", "jffs2", "--erase-size", "128KiB", "--size", "1GiB", "--from"]).arg(&tree).arg(&image);
    process::output(&mut mkfs)?;
    fs::remove_dir_all(&tree)?;
    Ok(image)
}

/// The process that answers for a mount: its source is nandkit:PID:STARTED.
fn process_of(point: &Path) -> Result<u32> {
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    let line = mounts.lines().find(|line| line.split(' ').nth(1) == point.to_str()).context("it is not mounted")?;
    let number = line.split(':').nth(1).context("a mount of somebody else")?;
    Ok(number.parse()?)
}

/// User and system time (proc_pid_stat(5), fields 14 and 15).
fn cpu_ticks(process: u32) -> Result<u64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    ensure!(fields.len() > 13, "a short line in /proc/{process}/stat");
    Ok(fields[11].parse::<u64>()? + fields[12].parse::<u64>()?)
}

/// Bytes in memory, those of mapped files too.
fn resident(process: u32) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    Ok(line.split_whitespace().next().context("no VmRSS")?.parse::<u64>()? << 10)
}

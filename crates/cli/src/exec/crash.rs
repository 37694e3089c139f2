//! `exec --cut-at`: whether what a program wrote survives power cuts.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nandkit_fuse::Unmounter;
use nandkit_stack::crash::{CrashChip, Cut, CutMoment, CutOutcome, Existing};
use nandkit_stack::{Below, FsSpec, Mounted, MountedFileSystem, Stack, StackSpec};
use nandkit_units::ReadInto;
use nandkit_units::random::Random;
use nandkit_vfs::path::{Next, Step, walk};
use nandkit_vfs::{FileKind, FileSystem, FsError, InodeNumber};
use serde_json::{Value, json};

use super::served::{Served, command_in};
use super::{arrivals, status_of};
use crate::args::{Cuts, ExecArguments};
use crate::failure::Failure;
use crate::{output, stop};

/// The environment's variable that tells command and check which cut this is.
const CUT: &str = "NANDKIT_CUT";
/// Between two looks whether the command has ended or the power has gone.
const PAUSE: Duration = Duration::from_millis(1);
/// Bytes of a check's output that are told.
const TOLD_MAX: u64 = 2000;

/// The result of a cut.
enum Verdict {
    Survived,
    Failed(String),
    /// The command ended before the step.
    NotReached,
}

/// A cut, counted from the mount.
struct Judged {
    asked: Cut,
    made: Option<CutOutcome>,
    verdict: Verdict,
}

/// The setting that all cuts have in common.
struct Bench<'a> {
    arguments: &'a ExecArguments,
    spec: &'a StackSpec,
    /// The chip with the volume as each run finds it.
    fresh: CrashChip,
    stopped: Arc<AtomicBool>,
    live: Arc<Live>,
}

/// The mounts that exist now and the commands that run on them: a second signal ends them with the
/// process.
#[derive(Default)]
struct Live {
    next: AtomicU64,
    mounts: Mutex<BTreeMap<u64, (Unmounter, Option<u32>)>>,
}

impl Live {
    fn held(&self) -> MutexGuard<'_, BTreeMap<u64, (Unmounter, Option<u32>)>> {
        self.mounts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, served: &Served) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.held().insert(number, (served.unmounter(), None));
        number
    }

    fn runs(&self, number: u64, group: Option<u32>) {
        if let Some((_, running)) = self.held().get_mut(&number) {
            *running = group;
        }
    }

    fn remove(&self, number: u64) {
        self.held().remove(&number);
    }

    /// Kills and unmounts all.
    fn end(&self) {
        for (unmounter, group) in self.held().values() {
            group.iter().for_each(|group| kill_group(*group));
            let _ = unmounter.abort();
            let _ = std::fs::remove_dir(unmounter.point());
        }
    }
}

/// Runs the command once whole, then once for each cut; tells what came of them. Errors: a command
/// that fails without any cut; a cut that was not survived or not reached. `chip`: with an image on
/// it; without one the volume is a fresh one.
pub fn test(arguments: &ExecArguments, cuts: Cuts, spec: &StackSpec, chip: Option<CrashChip>) -> Result<(), Failure> {
    if spec.fs == FsSpec::Model {
        let detail = format!("--cut-at: the model file system has no device; expected --fs {}", FsSpec::on_devices());
        return Err(Failure::Input(detail));
    }
    let (stopped, live) = (Arc::new(AtomicBool::new(false)), Arc::new(Live::default()));
    let (flag, all) = (Arc::clone(&stopped), Arc::clone(&live));
    stop::at_signal(move || flag.store(true, Ordering::Relaxed), move || all.end());
    let bench = Bench { arguments, spec, fresh: chip.map_or_else(|| fresh(spec, arguments.seed), Ok)?, stopped, live };
    let steps = bench.whole()?;
    if steps == 0 {
        let told = "the command programs and erases nothing in the volume, so that there is nothing to cut; expected one that writes there";
        return Err(Failure::Input(told.to_owned()));
    }
    let cuts = match cuts {
        Cuts::At(cut) => vec![cut],
        Cuts::Random(count) => drawn(count, steps, arguments.seed),
    };
    let judged = bench.all(&cuts)?;
    if bench.stopped.load(Ordering::Relaxed) {
        return Err(Failure::Told(130));
    }
    if arguments.json {
        output::text(&format!("{}\n", record(arguments, spec, steps, &judged)))?;
    } else {
        tell(steps, &judged)?;
    }
    let passed = judged.iter().all(|cut| matches!(cut.verdict, Verdict::Survived));
    if passed { Ok(()) } else { Err(Failure::Told(1)) }
}

/// The chip with a volume that was just made, and unmounted in good order.
fn fresh(spec: &StackSpec, seed: u64) -> Result<CrashChip, Failure> {
    let input = |error: nandkit_stack::StackError| Failure::Input(error.to_string());
    let chip = CrashChip::new(spec, seed).map_err(input)?;
    Stack::build_on(spec, seed, chip.clone(), Existing::Nothing).and_then(Stack::close).map_err(input)?;
    Ok(chip.snapshot())
}

/// Draws `count` distinct steps, taking the moments in turn; all steps if there are fewer.
fn drawn(count: u32, steps: u64, seed: u64) -> Vec<Cut> {
    let mut random = Random::new(seed, "cut");
    let count = u64::from(count).min(steps);
    let mut chosen = BTreeSet::new();
    // As Floyd draws a sample: each is drawn once, whatever the share.
    for last in steps - count + 1..=steps {
        let step = random.below(last) + 1;
        chosen.insert(if chosen.contains(&step) { last } else { step });
    }
    chosen.into_iter().zip(CutMoment::ALL.into_iter().cycle()).map(|(step, moment)| Cut { step, moment }).collect()
}

impl Bench<'_> {
    fn stack(&self, chip: &CrashChip) -> Result<(Box<dyn MountedFileSystem>, Below), String> {
        let stack = Stack::build_on(self.spec, self.arguments.seed, chip.clone(), Existing::Volume);
        let stack = stack.map_err(|error| error.to_string())?;
        let (mounted, below) = stack.lift();
        match mounted {
            Mounted::Files(fs) => Ok((fs, below)),
            Mounted::Blocks(_) => Err("the stack has no file system".to_owned()),
        }
    }

    /// The command as it is run in a volume; `NANDKIT_CUT` is the step of the cut, 0 where there is
    /// none.
    fn command(&self, served: &Served, step: u64) -> Result<Command, Failure> {
        let (program, rest) =
            self.arguments.command.split_first().ok_or_else(|| Failure::Input("expected a command".to_owned()))?;
        let mut command = command_in(served.point(), program, rest);
        // A group of its own, which ends as a whole when the power goes.
        command.env(CUT, step.to_string()).stdin(Stdio::null()).process_group(0);
        Ok(command)
    }

    /// The command without a cut: how many steps it takes, its flush at the end included.
    fn whole(&self) -> Result<u64, Failure> {
        let chip = self.fresh.snapshot();
        let (fs, below) = self.stack(&chip).map_err(Failure::Input)?;
        let before = chip.steps();
        let served = Served::begin(fs, arrivals(&below))?;
        let number = self.live.add(&served);
        let mut command = self.command(&served, 0)?;
        command.stdout(Stdio::from(std::io::stderr()));
        let ended = command.spawn().map(|child| self.wait(child, number, &chip));
        let back = served.end_soon();
        self.live.remove(number);
        let back = back?;
        if self.stopped.load(Ordering::Relaxed) {
            return Err(Failure::Told(130));
        }
        let status = ended.map_err(|error| Failure::Input(format!("cannot start the command: {error}")))?;
        if let Some(status) = status.filter(|status| !status.success()) {
            output::message("the command fails without a power cut; expected exit status 0");
            return Err(Failure::Told(status_of(status)));
        }
        match back.trouble {
            Some(trouble) => Err(Failure::Check(trouble)),
            None => Ok(chip.steps() - before),
        }
    }

    /// The end of a command, by itself or with the power, and of all of its children that are in
    /// its group.
    fn wait(&self, mut child: Child, number: u64, chip: &CrashChip) -> Option<ExitStatus> {
        self.live.runs(number, Some(child.id()));
        let mut status = None;
        while !chip.is_off() && !self.stopped.load(Ordering::Relaxed) {
            match child.try_wait() {
                Ok(None) => std::thread::sleep(PAUSE),
                ended => {
                    status = ended.ok().flatten();
                    break;
                }
            }
        }
        // A process that waits for an answer gets it only after the signal has arrived, so no
        // process of the group does anything more.
        kill_group(child.id());
        chip.release();
        let ended = child.wait().ok();
        self.live.runs(number, None);
        status.or(ended)
    }

    /// All cuts, several at a time, in their order.
    fn all(&self, cuts: &[Cut]) -> Result<Vec<Judged>, Failure> {
        let workers = std::thread::available_parallelism().map_or(1, usize::from).min(cuts.len());
        let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
        let results: Mutex<Vec<(usize, Result<Judged, Failure>)>> = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for _ in 0..workers {
                scope.spawn(|| {
                    while !self.stopped.load(Ordering::Relaxed) && !failed.load(Ordering::Relaxed) {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        let Some(cut) = cuts.get(number) else { break };
                        let judged = self.one(*cut);
                        if judged.is_err() {
                            failed.store(true, Ordering::Relaxed);
                        }
                        results.lock().unwrap_or_else(PoisonError::into_inner).push((number, judged));
                    }
                });
            }
        });
        let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
        results.sort_by_key(|(number, _)| *number);
        results.into_iter().map(|(_, judged)| judged).collect()
    }

    fn one(&self, asked: Cut) -> Result<Judged, Failure> {
        let chip = self.fresh.snapshot();
        let (fs, below) = self.stack(&chip).map_err(Failure::Check)?;
        let before = chip.steps();
        chip.cut_at(before + asked.step, asked.moment);
        let served = Served::begin(fs, arrivals(&below))?;
        let number = self.live.add(&served);
        let mut command = self.command(&served, asked.step)?;
        let started = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        if let Ok(child) = started {
            self.wait(child, number, &chip);
        }
        // Where the power is there still, the flush at the end may be what meets the cut.
        chip.release();
        let back = if chip.is_off() { served.abort() } else { served.end_soon() };
        self.live.remove(number);
        let back = back?;
        // What the layers had in memory goes with the power.
        drop((back.fs, below));
        if back.broken {
            let why = back.trouble.unwrap_or_default();
            return Ok(Judged {
                asked,
                made: chip.outcome(),
                verdict: Verdict::Failed(format!("before the cut: {why}")),
            });
        }
        let made = chip.outcome().map(|outcome| CutOutcome { cut: asked, ..outcome });
        let verdict = match made {
            None => Verdict::NotReached,
            Some(_) => {
                chip.power_on();
                self.judge(&chip, asked)?
            }
        };
        Ok(Judged { asked, made, verdict })
    }

    /// Mounts what the cut left, and lets the check look at it.
    fn judge(&self, chip: &CrashChip, cut: Cut) -> Result<Verdict, Failure> {
        let (fs, below) = match self.stack(chip) {
            Ok(stack) => stack,
            Err(error) => return Ok(Verdict::Failed(format!("the volume cannot be mounted: {error}"))),
        };
        let losses = fs.losses();
        if let Some(first) = losses.first() {
            return Ok(Verdict::Failed(format!("the mount tells of {} losses, first: {first}", losses.len())));
        }
        let Some(check) = &self.arguments.check else {
            return Ok(read_all(&*fs).map_or_else(Verdict::Failed, |()| Verdict::Survived));
        };
        let failed = |error: std::io::Error| Failure::Input(format!("cannot run the check: {error}"));
        let mut said = tempfile::tempfile().map_err(failed)?;
        let served = Served::begin(fs, arrivals(&below))?;
        let number = self.live.add(&served);
        let mut command = command_in(served.point(), "/bin/sh".as_ref(), &["-c".into(), check.into()]);
        command.env(CUT, cut.step.to_string()).stdin(Stdio::null()).process_group(0);
        let outputs = said.try_clone().and_then(|out| Ok((out, said.try_clone()?)));
        let started = outputs.and_then(|(out, error)| command.stdout(out).stderr(error).spawn());
        let status = started.map(|child| self.wait(child, number, chip));
        let back = served.end_soon();
        self.live.remove(number);
        let back = back?;
        Ok(match (status.map_err(failed)?, back.trouble) {
            (Some(status), None) if status.success() => Verdict::Survived,
            (Some(status), Some(trouble)) if status.success() => Verdict::Failed(trouble),
            (status, _) => {
                let status = status.map_or(1, status_of);
                Verdict::Failed(format!("the check ended with {status}: {}", last_words(&mut said).map_err(failed)?))
            }
        })
    }
}

/// The end of what a check said.
fn last_words(said: &mut File) -> std::io::Result<String> {
    let length = said.seek(SeekFrom::End(0))?;
    said.seek(SeekFrom::Start(length.saturating_sub(TOLD_MAX)))?;
    let mut bytes = Vec::new();
    said.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
}

fn kill_group(group: u32) {
    let group = i32::try_from(group).ok().and_then(rustix::process::Pid::from_raw);
    if let Some(group) = group {
        // It may have ended meanwhile.
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
}

/// Reads every file. Errors: the first that cannot be read, or a directory that cannot be listed.
fn read_all(fs: &dyn FileSystem) -> Result<(), String> {
    let mut bytes = vec![0; 1 << 16];
    let mut wrong = None;
    let walked = walk(fs, fs.root(), &mut |step| {
        let told = |path: &[u8], error: &FsError| format!("{} cannot be read: {error}", path.escape_ascii());
        wrong = match step {
            Step::Entry { path, attributes } if attributes.kind == FileKind::Regular => {
                read_file(fs, attributes.inode, &mut bytes).err().map(|error| told(path, &error))
            }
            Step::Problem { path, error } => Some(told(path, error)),
            _ => None,
        };
        Ok(if wrong.is_some() { Next::Stop } else { Next::Enter })
    });
    walked.map_err(|error| format!("the root cannot be read: {error}"))?;
    wrong.map_or(Ok(()), Err)
}

fn read_file(fs: &dyn FileSystem, inode: InodeNumber, bytes: &mut [u8]) -> nandkit_vfs::Result<()> {
    let mut offset = 0;
    loop {
        match fs.read(inode, offset, ReadInto::Bytes(bytes))? {
            0 => return Ok(()),
            count => offset += count as u64,
        }
    }
}

/// For people: what failed, and how many did.
fn tell(steps: u64, judged: &[Judged]) -> Result<(), Failure> {
    let mut text = String::new();
    let mut counts = [0_u32; 3];
    for Judged { asked, made, verdict } in judged {
        let place = made.map_or_else(|| format!("step {}", asked.step), |made| made.to_string());
        match verdict {
            Verdict::Survived => counts[0] += 1,
            Verdict::Failed(why) => {
                counts[1] += 1;
                text += &format!("{place}: {why}\n");
            }
            Verdict::NotReached => {
                counts[2] += 1;
                text += &format!("{place}: not reached, the command ended before\n");
            }
        }
    }
    let [survived, failed, missed] = counts;
    text += &format!(
        "{} power cuts in {steps} programs, copies and erases: {survived} survived, {failed} failed, {missed} not reached\n",
        judged.len()
    );
    output::text(&text)
}

fn record(arguments: &ExecArguments, spec: &StackSpec, steps: u64, judged: &[Judged]) -> Value {
    let words: Vec<String> = arguments.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let cuts: Vec<Value> = judged
        .iter()
        .map(|cut| {
            let (verdict, detail) = match &cut.verdict {
                Verdict::Survived => ("survived", None),
                Verdict::Failed(why) => ("failed", Some(why)),
                Verdict::NotReached => ("not reached", None),
            };
            json!({"step": cut.asked.step, "cut": cut.made.map(|made| made.to_string()), "verdict": verdict, "detail": detail})
        })
        .collect();
    json!({"command": words, "check": arguments.check, "stack": spec.title(), "seed": arguments.seed, "steps": steps, "cuts": cuts})
}

//! `cargo xtask test`: everything that must hold before a commit.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use tempfile::TempDir;

use crate::options::{Options, Unusable};
use crate::{fuzz, judges, kernel, process, tidy, toolchain};

/// A step; whether it passed.
type Step = fn() -> Result<bool>;

/// Steps that only compile, and need nothing of the others.
const COMPILING: [(&str, Step); 2] = [("fuzz targets", fuzz::check), ("documentation", documentation)];

/// Runs every step, prints each with its time, and ends with one line that tells the whole. With
/// `--only` runs one of those that only compile.
pub fn run(arguments: &[String]) -> Result<bool> {
    let options = Options::parse(arguments, &["--quick"], &["--only"], 0)?;
    if let Some(wanted) = options.text("--only") {
        let Some((_, step)) = COMPILING.iter().find(|(name, _)| *name == wanted) else {
            bail!(Unusable(format!(
                "--only {wanted}: no such step; there are: {}",
                COMPILING.map(|step| step.0).join(", ")
            )));
        };
        return step();
    }
    let quick = options.flag("--quick");
    let mut steps = Steps::default();
    // Without these nothing below can be trusted, so they end the run at once.
    steps.take("toolchain", toolchain::check)?;
    if !quick {
        steps.take("judges", judges::provide)?;
    }
    // Unpacking is one thread's work, and so is the end of a compilation: they go side by side.
    let kernel = (!quick).then(|| thread::spawn(kernel::prepare));
    steps.go_on("tidy", || tidy::check(&process::root()));
    steps.go_on("format", || process::succeeds(&mut process::cargo(&["fmt", "--all", "--check"])));
    steps.go_on("lints", || {
        let lints = ["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];
        process::succeeds(&mut process::cargo(&lints))
    });
    steps.go_on("compile tests", || process::succeeds(&mut tests(quick, &["--no-run"])));
    // Tests wait for disks and for each other, and leave a fifth of the processors idle.
    let beside = (!quick).then(|| thread::spawn(|| COMPILING.map(|(name, _)| (name, Beside::compile(name)))));
    let mut counts = Counts::default();
    steps.go_on("tests", || cargo_test(quick, &mut counts));
    if let (Some(kernel), Some(beside)) = (kernel, beside) {
        // A guest has one processor; the commands of the documentation take the other one.
        let docs = thread::spawn(documented_commands);
        steps.go_on("real Linux", || {
            kernel.join().map_err(|_| anyhow!("the kernel was not prepared: see above"))??;
            kernel::test::run(&["--nandkit".into(), built_with_tests()?])
        });
        steps.go_on("docs", || Ok(docs.join().map_err(|_| anyhow!("the step ended in a panic"))??.told()));
        for (name, done) in beside.join().map_err(|_| anyhow!("the steps beside the tests ended in a panic"))? {
            steps.go_on(name, || Ok(done?.told()));
        }
    }
    Ok(steps.close(&counts))
}

/// A step that ran beside another one, with what it printed.
struct Beside {
    output: std::process::Output,
    took: Duration,
}

impl Beside {
    /// Runs a step that compiles, at a priority that leaves the processors to the tests.
    fn compile(name: &str) -> Result<Self> {
        let mut command = Command::new("nice");
        Self::run(command.args(["-n", "10"]).arg(std::env::current_exe()?).args(["test", "--only", name]))
    }

    fn run(command: &mut Command) -> Result<Self> {
        let start = Instant::now();
        let output = command.output().with_context(|| format!("cannot start {command:?}"))?;
        Ok(Self { output, took: start.elapsed() })
    }

    /// Prints what the step printed; true where it passed.
    fn told(&self) -> bool {
        println!("{}", String::from_utf8_lossy(&self.output.stdout));
        eprintln!("{}", String::from_utf8_lossy(&self.output.stderr));
        println!("beside another step, in {:.1} s", self.took.as_secs_f64());
        self.output.status.success()
    }
}

/// Builds the documentation with warnings as errors. The library and the program are both called
/// `nandkit` and write into one folder, so they come one after the other.
fn documentation() -> Result<bool> {
    let built = |packages: &[&str]| {
        let mut doc = process::cargo(&["doc", "--no-deps", "--locked"]);
        process::succeeds(doc.args(packages).env("RUSTDOCFLAGS", "-D warnings"))
    };
    Ok(built(&["--workspace", "--exclude", "nandkit"])? && built(&["--package", "nandkit"])?)
}

/// Runs the commands of the documentation in a process of its own.
fn documented_commands() -> Result<Beside> {
    let program = built_with_tests()?;
    Beside::run(Command::new(std::env::current_exe()?).args(["docs", "--nandkit", &program]))
}

/// The program that the tests were built with. To build the program alone would compile all that it
/// stands on once more: without the tests some dependencies have fewer features.
fn built_with_tests() -> Result<String> {
    Ok(process::target_directory()?.join("debug/nandkit").display().to_string())
}

/// Three times what the tests take with all to be built: one that hangs ends them all, and its name
/// is the one that did not come.
const TESTS_MAX: Duration = Duration::from_secs(3600);

/// The command that compiles and runs tests. Examples are left out: the lints compile them, and
/// nothing here runs them.
fn tests(quick: bool, more: &[&str]) -> Command {
    let all = ["test", "--workspace", "--locked", "--no-fail-fast"];
    // A crate whose manifest says `test = false` has no unit tests, and is not compiled for them.
    let programs: &[&str] = if quick { &["--lib", "--bins"] } else { &["--tests"] };
    process::cargo(&[&all, programs, more].concat())
}

/// Runs the tests with their output visible, and goes on after the first failing binary.
fn cargo_test(quick: bool, counts: &mut Counts) -> Result<bool> {
    let path = process::path_with_system_tools()?;
    let threads = std::env::var("RUST_TEST_THREADS").unwrap_or_else(|_| test_threads().to_string());
    let files = files_in_memory()?;
    let mut passed = |mut command: Command| {
        if let Some(files) = &files {
            command.env("TMPDIR", files.path());
        }
        let mut command = process::within(TESTS_MAX, command);
        process::succeeds_watched(command.env("PATH", &path).env("RUST_TEST_THREADS", &threads), |line| {
            counts.see(line)
        })
    };
    let mut all_passed = passed(tests(quick, &[]))?;
    if !quick {
        all_passed &= passed(process::cargo(&["test", "--workspace", "--locked", "--no-fail-fast", "--doc"]))?;
    }
    if counts.ignored > 0 {
        println!("{} tests are ignored: a test runs, or it is not there", counts.ignored);
    }
    Ok(all_passed && counts.ignored == 0 && counts.passed > 0)
}

/// Where Linux keeps files in memory.
const MEMORY: &str = "/dev/shm";

/// Room there for the files of the tests: some hold images of gigabytes.
const MEMORY_MIN: u64 = 10 << 30;

/// A directory in memory for the files of the tests, if there is room: on a disk an eighth of their
/// time is the file system's. Tests that need a disk's (extents, reflinks, attributes of users) ask
/// for it.
fn files_in_memory() -> Result<Option<TempDir>> {
    let Ok(room) = rustix::fs::statvfs(MEMORY) else { return Ok(None) };
    if room.f_bavail.saturating_mul(room.f_frsize) < MEMORY_MIN {
        return Ok(None);
    }
    let directory = tempfile::tempdir_in(MEMORY)?;
    // Some tests act as other users.
    fs::set_permissions(directory.path(), Permissions::from_mode(0o1777))?;
    Ok(Some(directory))
}

/// Half as many again as there are cores: tests wait for the disk and for programs that judge.
fn test_threads() -> usize {
    thread::available_parallelism().map_or(1, |cores| cores.get() + cores.get().div_ceil(2))
}

/// The sums over the test binaries' closing lines.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    passed: u64,
    failed: u64,
    ignored: u64,
}

impl Counts {
    /// Adds a line such as `test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; ...`;
    /// other lines count nothing.
    fn see(&mut self, line: &str) {
        let Some(result) = line.strip_prefix("test result: ") else { return };
        for part in result.split([';', '.']) {
            let mut words = part.split_whitespace();
            let (Some(number), Some(what)) = (words.next(), words.next()) else { continue };
            let Ok(number) = number.parse::<u64>() else { continue };
            match what {
                "passed" => self.passed += number,
                "failed" => self.failed += number,
                "ignored" => self.ignored += number,
                _ => {}
            }
        }
    }
}

/// The steps so far.
#[derive(Default)]
struct Steps {
    done: Vec<(&'static str, Duration, bool)>,
}

impl Steps {
    /// Runs a step whose failure does not keep the others from telling something.
    fn go_on(&mut self, name: &'static str, step: impl FnOnce() -> Result<bool>) {
        if let Err(error) = self.take(name, step) {
            eprintln!("{name}: {error:#}");
        }
    }

    /// Runs a step; an error of its own is handed on.
    fn take(&mut self, name: &'static str, step: impl FnOnce() -> Result<bool>) -> Result<()> {
        println!("==> {name}");
        let start = Instant::now();
        let outcome = step();
        let took = start.elapsed();
        let passed = matches!(outcome, Ok(true));
        println!("<== {name}: {} in {:.1} s", if passed { "passed" } else { "FAILED" }, took.as_secs_f64());
        self.done.push((name, took, passed));
        outcome.map(|_| ())
    }

    /// Prints the table of steps and the closing line; true where every step passed.
    fn close(&self, counts: &Counts) -> bool {
        println!();
        for (name, took, passed) in &self.done {
            println!("{name:<15} {:>8.1} s  {}", took.as_secs_f64(), if *passed { "passed" } else { "FAILED" });
        }
        let whole: Duration = self.done.iter().map(|(_, took, _)| *took).sum();
        let failed: Vec<&str> = self.done.iter().filter(|(_, _, passed)| !passed).map(|(name, _, _)| *name).collect();
        let tests = format!("{} tests passed, {} failed", counts.passed, counts.failed);
        match failed.as_slice() {
            [] => println!("xtask test: all {} steps passed, {tests}, {:.0} s", self.done.len(), whole.as_secs_f64()),
            names => println!("xtask test: FAILED: {}; {tests}, {:.0} s", names.join(", "), whole.as_secs_f64()),
        }
        failed.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_lines_of_test_binaries_add_up() {
        let mut counts = Counts::default();
        counts.see("test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out; finished in 0.01s");
        counts.see("test result: FAILED. 2 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s");
        counts.see("test units::tests::twelve passed ... ok");
        assert_eq!(counts, Counts { passed: 14, failed: 3, ignored: 1 });
    }

    #[test]
    fn one_failed_step_fails_the_whole_and_the_rest_still_runs() {
        let mut steps = Steps::default();
        steps.go_on("first", || Ok(true));
        assert!(steps.close(&Counts::default()));
        steps.go_on("second", || anyhow::bail!("planted"));
        steps.go_on("third", || Ok(true));
        assert_eq!(steps.done.len(), 3);
        assert!(!steps.close(&Counts::default()));
    }
}

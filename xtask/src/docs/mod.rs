//! `cargo xtask docs`: runs the commands that the documentation shows.
//!
//! In README.md and the pages of docs/guide every block of commands is run, or says why it is not;
//! of the help of each command all examples but those in [`help`]'s list. Each page has a directory
//! and a shell of its own; `$INPUTS` is a directory with the files that inputs.sh makes.

mod help;
mod page;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use self::page::{Command, commands, fits};
use crate::options::Options;
use crate::process;

/// Longest time of a page; one that takes longer is taken as hanging.
const PAGE_MAX: Duration = Duration::from_secs(120);

/// Commands that belong together: those of a file, or of a command's help.
#[derive(Debug)]
struct Page {
    /// The page's name in messages: a file's path from the root, or a command.
    name: String,
    commands: Vec<Command>,
    /// Number of the first command whose outcome counts; the commands before it prepare the
    /// directory.
    first: usize,
}

/// The task. `--nandkit FILE` runs this program instead of building one.
pub fn run(arguments: &[String]) -> Result<bool> {
    let options = Options::parse(arguments, &[], &["--nandkit"], 0)?;
    let program = match options.text("--nandkit") {
        Some(program) => PathBuf::from(program).canonicalize().context("--nandkit")?,
        None => {
            if !process::succeeds(&mut process::cargo(&["build", "--locked", "--package", "nandkit-cli"]))? {
                return Ok(false);
            }
            process::target_directory()?.join("debug/nandkit")
        }
    };
    let start = Instant::now();
    let mut pages = pages(&process::root())?;
    let inputs = Directory::new()?;
    pages.extend(help::pages(&program, &inputs)?);
    let count = pages.iter().map(Page::counted).sum::<usize>();
    let failed = run_all(pages, &program, &inputs)?;
    println!("docs: {count} commands, {failed} failed, {:.0} s", start.elapsed().as_secs_f64());
    Ok(failed == 0 && count > 0)
}

/// The pages with commands that are run.
fn pages(root: &Path) -> Result<Vec<Page>> {
    let mut files = vec!["README.md".to_owned()];
    for entry in fs::read_dir(root.join("docs/guide")).context("docs/guide")? {
        files.push(format!("docs/guide/{}", entry?.file_name().to_string_lossy()));
    }
    files.sort();
    let mut pages = Vec::new();
    for name in files.into_iter().filter(|name| name.ends_with(".md")) {
        let text = fs::read_to_string(root.join(&name)).with_context(|| name.clone())?;
        let commands = match commands(&text) {
            Ok(commands) => commands,
            Err(error) => bail!("{name}:{error}"),
        };
        if !commands.is_empty() {
            pages.push(Page { name, commands, first: 0 });
        }
    }
    Ok(pages)
}

/// Runs the pages on as many threads as there are processors; returns how many commands failed.
fn run_all(pages: Vec<Page>, program: &Path, inputs: &Directory) -> Result<usize> {
    let left = Mutex::new(pages);
    let worker = || -> Result<usize> {
        let mut failed = 0;
        loop {
            let page = left.lock().ok().and_then(|mut pages| pages.pop());
            let Some(page) = page else { return Ok(failed) };
            let wrong = page.run(program, &inputs.0).with_context(|| page.name.clone())?;
            wrong.iter().for_each(|line| println!("{line}"));
            failed += wrong.len();
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        let counts = workers.into_iter().map(|worker| match worker.join() {
            Ok(count) => count,
            Err(_) => bail!("a thread panicked"),
        });
        counts.sum()
    })
}

impl Page {
    /// Number of commands whose outcome counts.
    fn counted(&self) -> usize {
        self.commands.len().saturating_sub(self.first)
    }

    /// Runs the commands one behind the other in one shell; returns a text for each that failed.
    fn run(&self, program: &Path, inputs: &Path) -> Result<Vec<String>> {
        self.run_in(program, &Directory::new()?.0, inputs)
    }

    /// Runs them in this directory, and ends what they have mounted at `mnt`.
    fn run_in(&self, program: &Path, directory: &Path, inputs: &Path) -> Result<Vec<String>> {
        // A mark that no program prints, with the status behind it.
        let mark = "== end of a command, status ";
        let step = |command: &Command| format!("{}\necho \"{mark}$?\"\n", command.text);
        let script: String = self.commands.iter().map(step).collect();
        let script = format!("exec 2>&1\n{script}if mountpoint -q mnt; then nandkit umount --lazy mnt; fi\n");
        let folder = program.parent().context("the program lies in a folder")?;
        let path = process::path_with_system_tools()?;
        let path = std::env::join_paths(std::iter::once(folder.to_owned()).chain(std::env::split_paths(&path)))?;
        let mut shell = Process::new("sh");
        shell.args(["-c", &script]).current_dir(directory);
        let mut run = process::within(PAGE_MAX, shell);
        run.env("PATH", path).env("HOME", directory).env("COLUMNS", "100").env("TZ", "UTC");
        run.env("INPUTS", inputs).stdin(Stdio::null());
        let output = run.output().context("sh (with timeout of the GNU core utilities)")?;
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok(self.judge(&told, mark))
    }

    fn judge(&self, told: &str, mark: &str) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut rest = told;
        for (number, command) in self.commands.iter().enumerate() {
            let text = command.text.lines().next().unwrap_or_default();
            let place = format!("{}:{}: $ {text}", self.name, command.line);
            let Some((text, behind)) = rest.split_once(mark) else {
                wrong.push(format!("{place}\n    ended the shell, or took too long:\n{}", indented(rest)));
                break;
            };
            let (status, behind) = behind.split_once('\n').unwrap_or((behind, ""));
            rest = behind;
            if status != "0" {
                wrong.push(format!("{place}\n    exit status {status}:\n{}", indented(text)));
            } else if let Some(shown) = command.shown.as_ref().filter(|_| number >= self.first) {
                let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
                if !fits(shown, &lines) {
                    let shown = indented(&shown.join("\n"));
                    wrong.push(format!("{place}\n    the page shows:\n{shown}\n    it prints:\n{}", indented(text)));
                }
            }
        }
        wrong
    }
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("    | {line}")).collect::<Vec<_>>().join("\n")
}

/// A directory that is removed when this is dropped.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Result<Self> {
        let made = process::output(Process::new("mktemp").args(["-d", "-t", "nandkit-docs-XXXXXX"]))?;
        Ok(Self(PathBuf::from(made.trim())))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(text: &str) -> Page {
        Page { name: "a.md".into(), commands: commands(text).unwrap(), first: 0 }
    }

    #[test]
    fn wrong_lines_are_told_with_file_and_line() {
        let program = Path::new("/bin/true");
        let right =
            page("<!-- run: mkdir d -->\n```\ncd d   a remark\n```\n<!-- run -->\n```\n$ pwd | wc -l\n1\n```\n");
        assert_eq!(right.run(program, program).unwrap(), Vec::<String>::new());
        let wrong = page("<!-- run -->\n```\n$ false\n$ echo a b\nc b\n$ exit 3\n$ true\n```\n");
        let wrong = wrong.run(program, program).unwrap();
        assert_eq!(wrong.len(), 3, "{wrong:?}");
        for (found, part) in wrong.iter().zip(["a.md:3: $ false\n    exit status 1", "a.md:4: $ echo a b", "a.md:6: "])
        {
            assert!(found.starts_with(part), "{found}");
        }
        assert!(wrong[1].contains("| c b") && wrong[1].contains("| a b") && wrong[2].contains("ended the shell"));
    }

    #[test]
    fn the_pages_have_the_form() {
        let pages = pages(&process::root()).unwrap();
        assert!(pages.iter().any(|page| page.name == "README.md" && page.commands.len() >= 8), "{pages:?}");
        assert!(pages.len() >= 3, "{pages:?}");
    }
}

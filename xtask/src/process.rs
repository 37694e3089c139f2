//! Running other programs: cargo above all.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// The workspace's root directory.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

/// The cargo that runs this task, called in the workspace's root.
pub fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(root());
    command
}

/// A command that is ended, with all that it started, when it takes longer (timeout(1) of the GNU
/// core utilities).
pub fn within(longest: Duration, command: Command) -> Command {
    let mut limited = Command::new("timeout");
    limited
        .args(["--kill-after=30", &longest.as_secs().to_string()])
        .arg(command.get_program())
        .args(command.get_args());
    if let Some(directory) = command.get_current_dir() {
        limited.current_dir(directory);
    }
    limited
}

/// Runs a command with its output where ours goes, and says whether it succeeded.
pub fn succeeds(command: &mut Command) -> Result<bool> {
    let status = command.status().with_context(|| format!("cannot start {}", program(command)))?;
    Ok(status.success())
}

/// Runs a command, hands each line of its standard output to `see` after printing it, and says
/// whether it succeeded.
pub fn succeeds_watched(command: &mut Command, mut see: impl FnMut(&str)) -> Result<bool> {
    let mut child =
        command.stdout(Stdio::piped()).spawn().with_context(|| format!("cannot start {}", program(command)))?;
    if let Some(output) = child.stdout.take() {
        for line in BufReader::new(output).split(b'\n') {
            let line = String::from_utf8_lossy(&line?).into_owned();
            println!("{line}");
            see(&line);
        }
    }
    Ok(child.wait()?.success())
}

/// A command's standard output; an error with its standard error where it fails.
pub fn output(command: &mut Command) -> Result<String> {
    let done = command.output().with_context(|| format!("cannot start {}", program(command)))?;
    if !done.status.success() {
        bail!("{} failed: {}", program(command), String::from_utf8_lossy(&done.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

/// What cargo knows of the workspace, without its dependencies.
pub fn metadata() -> Result<serde_json::Value> {
    let text = output(&mut cargo(&["metadata", "--format-version", "1", "--no-deps", "--locked"]))?;
    serde_json::from_str(&text).context("cargo metadata printed something else than JSON")
}

/// Where cargo puts what it builds.
pub fn target_directory() -> Result<PathBuf> {
    let metadata = metadata()?;
    Ok(metadata["target_directory"].as_str().context("cargo metadata names no target directory")?.into())
}

/// Where `tool` is: on the PATH, or in the directories of system tools that an ordinary user's PATH
/// leaves out.
pub fn find(tool: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(SYSTEM_DIRECTORIES.iter().map(PathBuf::from))
        .map(|directory| directory.join(tool))
        .find(|candidate| candidate.is_file())
}

/// The PATH with the directories of system tools at its end.
pub fn path_with_system_tools() -> Result<std::ffi::OsString> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = std::env::split_paths(&path).chain(SYSTEM_DIRECTORIES.iter().map(PathBuf::from));
    std::env::join_paths(directories).context("PATH cannot be extended")
}

/// Debian keeps file-system checkers here, and an ordinary user's PATH without them.
const SYSTEM_DIRECTORIES: [&str; 2] = ["/usr/sbin", "/sbin"];

fn program(command: &Command) -> String {
    std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|part| part.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_holds_the_workspace() {
        assert!(root().join("Cargo.lock").is_file());
    }

    #[test]
    fn output_and_failure_are_told_apart() {
        assert!(output(cargo(&["--version"]).stdin(Stdio::null())).unwrap().starts_with("cargo "));
        let error = output(&mut cargo(&["no-such-command-at-all"])).unwrap_err().to_string();
        assert!(error.contains("no-such-command-at-all"), "{error}");
        assert!(find("no-such-tool-at-all").is_none());
    }

    #[test]
    fn watched_lines_arrive() {
        let mut lines = Vec::new();
        assert!(succeeds_watched(&mut cargo(&["--version"]), |line| lines.push(line.to_owned())).unwrap());
        assert_eq!(lines.len(), 1);
    }
}

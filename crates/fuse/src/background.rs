//! Process control: leaving the terminal, and ending another process.

use std::fs::OpenOptions;
use std::io;

/// Leaves the terminal's session, so that its signals and its end no longer affect this process.
/// Error: this process leads a process group.
pub fn leave_terminal() -> io::Result<()> {
    rustix::process::setsid().map(|_| ()).map_err(io::Error::from)
}

/// Sends a signal to a process, as `kill` does. Processes that have ended and unknown signals are
/// ignored.
pub fn send_signal(id: u32, signal: i32) {
    let id = i32::try_from(id).ok().and_then(rustix::process::Pid::from_raw);
    if let (Some(id), Some(signal)) = (id, rustix::process::Signal::from_named_raw(signal)) {
        let _ = rustix::process::kill_process(id, signal);
    }
}

/// Releases the working directory, standard output and standard error, so that their readers see
/// the end. Error: there is no `/dev/null`.
pub fn let_go() -> io::Result<()> {
    std::env::set_current_dir("/")?;
    let nowhere = OpenOptions::new().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdout(&nowhere)?;
    rustix::stdio::dup2_stderr(&nowhere)?;
    Ok(())
}

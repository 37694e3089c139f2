//! Processes: one that goes on without the terminal on which it began, and one that is to end.

use std::fs::OpenOptions;
use std::io;

/// Leaves the terminal's session: its signals, and its end, are not for this process any more.
/// Errors: this process leads a group.
pub fn leave_terminal() -> io::Result<()> {
    rustix::process::setsid().map(|_| ()).map_err(io::Error::from)
}

/// Sends a signal to a process, as `kill` does. One that has ended already is let be, and so is a
/// signal without a name.
pub fn send_signal(id: u32, signal: i32) {
    let id = i32::try_from(id).ok().and_then(rustix::process::Pid::from_raw);
    if let (Some(id), Some(signal)) = (id, rustix::process::Signal::from_named_raw(signal)) {
        let _ = rustix::process::kill_process(id, signal);
    }
}

/// Lets go of the directory it began in, and of standard output and error: whoever reads them sees
/// their end. Errors: no `/dev/null`.
pub fn let_go() -> io::Result<()> {
    std::env::set_current_dir("/")?;
    let nowhere = OpenOptions::new().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdout(&nowhere)?;
    rustix::stdio::dup2_stderr(&nowhere)?;
    Ok(())
}

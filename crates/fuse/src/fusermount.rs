//! Use of fusermount3, the set-user-id program that mounts and unmounts for users other than root.

use std::io::{self, ErrorKind, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use rustix::fs::Access;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

/// Its names in libfuse 3 and libfuse 2.
const NAMES: [&str; 2] = ["fusermount3", "fusermount"];
/// Directories to search besides the search path.
const FOLDERS: [&str; 2] = ["/usr/bin", "/bin"];
/// The environment variable with the socket to which it sends the connection (libfuse,
/// util/fusermount.c).
const SOCKET: &str = "_FUSE_COMMFD";

/// Finds a program that this user can run, in the search path or in one of `folders`.
pub fn find_program(name: &str, folders: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(folders.iter().map(PathBuf::from));
    let runs = |file: &PathBuf| file.is_file() && rustix::fs::access(file, Access::EXEC_OK).is_ok();
    folders.map(|folder| folder.join(name)).find(runs)
}

/// Finds the program that mounts and unmounts for users other than root.
pub fn find_fusermount() -> Option<PathBuf> {
    NAMES.iter().find_map(|name| find_program(name, &FOLDERS))
}

fn found() -> io::Result<PathBuf> {
    let expected =
        "there is no program fusermount3 that this user can run; expected it (Debian package fuse3), or root";
    find_fusermount().ok_or_else(|| io::Error::new(ErrorKind::NotFound, expected))
}

/// Mounts; returns the connection with the kernel. Errors: the program is missing, or its own
/// message.
pub(crate) fn mount(point: &Path, options: &str) -> io::Result<OwnedFd> {
    let program = found()?;
    let (theirs, ours) = UnixStream::pair()?;
    let mut command = Command::new(&program);
    // As standard input, the socket is inherited only by this program.
    command.env(SOCKET, "0").stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::null()).stderr(Stdio::piped());
    let child = command.args(["-o", options, "--"]).arg(point).spawn()?;
    // Close our copy of its side, so that its end can be seen.
    drop(command);
    let received = receive(&ours);
    drop(ours);
    let output = child.wait_with_output()?;
    match received? {
        Some(connection) => Ok(connection),
        None => Err(told(&program, &output)),
    }
}

/// Unmounts. Errors: the program is missing, or its own message; `ResourceBusy` if the mount is in
/// use.
pub(crate) fn unmount(point: &Path, detach: bool) -> io::Result<()> {
    let program = found()?;
    let mut command = Command::new(&program);
    let output = command.arg("-u").args(detach.then_some("-z")).arg("--").arg(point).stdin(Stdio::null()).output()?;
    if output.status.success() { Ok(()) } else { Err(told(&program, &output)) }
}

/// Receives a descriptor; `None` if the other side closed without sending one.
fn receive(socket: &UnixStream) -> io::Result<Option<OwnedFd>> {
    loop {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        match recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC) {
            Ok(_) => {
                return Ok(control.drain().find_map(|message| match message {
                    RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
                    _ => None,
                }));
            }
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// The message of the program as an error. It uses the texts of strerror(3) in the C locale, since
/// it sets no locale.
fn told(program: &Path, output: &Output) -> io::Error {
    let text = String::from_utf8_lossy(&output.stderr);
    let kind = match &*text {
        text if text.contains("busy") => ErrorKind::ResourceBusy,
        text if text.contains("not permitted") || text.contains("denied") => ErrorKind::PermissionDenied,
        _ => ErrorKind::Other,
    };
    let said = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match said.is_empty() {
        true => io::Error::new(kind, format!("{}: {}", program.display(), output.status)),
        false => io::Error::new(kind, said),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    use super::*;

    #[test]
    fn what_it_says_is_kept() {
        let error = |text: &str| {
            let output = Output { status: ExitStatus::from_raw(256), stdout: Vec::new(), stderr: text.into() };
            told(Path::new("/bin/fusermount3"), &output)
        };
        let busy = error("fusermount3: failed to unmount /mnt: Device or resource busy\n");
        assert_eq!(busy.kind(), ErrorKind::ResourceBusy);
        assert_eq!(busy.to_string(), "fusermount3: failed to unmount /mnt: Device or resource busy");
        assert_eq!(error("fusermount3: mount failed: Operation not permitted\n").kind(), ErrorKind::PermissionDenied);
        assert!(error("").to_string().contains("fusermount3: exit status: 1"));
    }

    #[test]
    fn a_program_is_one_that_can_be_run() {
        assert!(
            find_program("sh", &[]).is_some()
                && find_program("passwd", &["/etc"]).is_none_or(|p| p.starts_with("/usr"))
        );
        assert!(find_program("mountinfo", &["/proc/self"]).is_none());
    }
}

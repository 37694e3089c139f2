//! Reports the end of a mount to the process that unmounted it: unmounting itself does not report
//! what the mount process does afterwards.
//!
//! The mount process listens on an abstract socket (unix(7)) named after the mount's source. A
//! client that connected before the end reads a line: `ok`, or what went wrong; nothing if the
//! process was killed.

use std::io::{self, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

/// The line after success.
const OK: &str = "ok";
/// Longest line that is read, in bytes.
const TOLD_MAX: u64 = 65_536;

fn address(source: &str) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(source)
}

/// The reporting side, in the mount process.
#[derive(Debug)]
pub struct Teller(UnixListener);

impl Teller {
    /// Starts to listen for clients. Errors: the name is taken, or abstract sockets are not
    /// supported.
    pub(crate) fn listen(source: &str) -> io::Result<Self> {
        let listener = UnixListener::bind_addr(&address(source)?)?;
        listener.set_nonblocking(true)?;
        Ok(Self(listener))
    }

    /// Reports the end to all clients. `trouble`: what went wrong, if anything.
    pub fn tell(&self, trouble: Option<&str>) {
        // Connections have waited in the queue of the socket until now.
        while let Ok((mut stream, _)) = self.0.accept() {
            let _ = writeln!(stream, "{}", trouble.unwrap_or(OK));
        }
    }
}

/// A client that waits for the end of a mount.
#[derive(Debug)]
pub struct Listener(UnixStream);

/// The report of the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// All changes are in the image.
    Kept,
    /// Some changes are not in the image, and why.
    Trouble(String),
    /// The process ended without a report: it was killed.
    Nothing,
    /// The process did not end in time.
    Waiting,
}

impl Listener {
    /// Connects to the process of a mount. Error: it cannot be reached.
    pub(crate) fn connect(source: &str) -> io::Result<Self> {
        UnixStream::connect_addr(&address(source)?).map(Self)
    }

    /// Waits for the end, at most for `patience`.
    pub fn wait(self, patience: Duration) -> Told {
        let mut text = String::new();
        let read =
            self.0.set_read_timeout(Some(patience)).and_then(|()| self.0.take(TOLD_MAX).read_to_string(&mut text));
        match (read, text.trim_end()) {
            (Err(error), _) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                Told::Waiting
            }
            (Ok(_), OK) => Told::Kept,
            (_, "") => Told::Nothing,
            (_, trouble) => Told::Trouble(trouble.to_owned()),
        }
    }
}

//! How a mount ended, told to who ended it: unmounting says nothing of what the process does
//! afterwards.
//!
//! The process listens at an abstract socket (unix(7)) named after the mount's source; who
//! connected before the end reads a line then: `ok`, or what went wrong. Where the process was
//! killed, nothing.

use std::io::{self, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

/// What is said where all is kept.
const OK: &str = "ok";
/// The longest line that is read.
const TOLD_MAX: u64 = 65_536;

fn address(source: &str) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(source)
}

/// Tells how a mount ended.
#[derive(Debug)]
pub struct Teller(UnixListener);

impl Teller {
    /// From here on others may ask to be told. Errors: the name is taken, or there are no such
    /// sockets here.
    pub(crate) fn listen(source: &str) -> io::Result<Self> {
        let listener = UnixListener::bind_addr(&address(source)?)?;
        listener.set_nonblocking(true)?;
        Ok(Self(listener))
    }

    /// Tells those who asked. `trouble`: what went wrong, if anything did.
    pub fn tell(&self, trouble: Option<&str>) {
        // Connections wait in the queue of the socket until now.
        while let Ok((mut stream, _)) = self.0.accept() {
            let _ = writeln!(stream, "{}", trouble.unwrap_or(OK));
        }
    }
}

/// Somebody who is told how a mount ends.
#[derive(Debug)]
pub struct Listener(UnixStream);

/// What one was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// Everything is in the image.
    Kept,
    /// Not everything is, and why.
    Trouble(String),
    /// The process ended without a word: it was killed.
    Nothing,
    /// It has not ended in time.
    Waiting,
}

impl Listener {
    /// Asks the process of a mount to be told. Errors: it cannot be reached.
    pub(crate) fn connect(source: &str) -> io::Result<Self> {
        UnixStream::connect_addr(&address(source)?).map(Self)
    }

    /// Waits for the end.
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

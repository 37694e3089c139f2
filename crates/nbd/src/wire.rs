//! Buffered input and output. Requests that arrive together are read together, and replies are sent
//! together, so that a client with a deep queue costs few system calls.

use std::io::{self, ErrorKind, Read, Write};
use std::time::{Duration, Instant};

/// A connection. Reads return `WouldBlock` or `TimedOut` from time to time, so that the server can
/// be stopped.
pub trait Transport: Read + Write + Send {}

impl<T: Read + Write + Send> Transport for T {}

const INPUT_BYTES: usize = 256 << 10;
const OUTPUT_BYTES: usize = 256 << 10;
/// Lowest accepted rate in bytes per second, in addition to the patience; a client that trickles
/// bytes is slower.
const SLOWEST_RATE: u64 = 64 << 10;

/// A connection with buffers.
pub struct Wire<T> {
    transport: T,
    input: Vec<u8>,
    start: usize,
    end: usize,
    output: Vec<u8>,
    /// How long a client may leave a message half sent or half received.
    patience: Duration,
    /// Deadline of the current message.
    deadline: Deadline,
    /// Deadline of the whole handshake.
    all_until: Option<Instant>,
    /// Whether output is held until it is taken.
    held: bool,
}

/// The result of waiting for the next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// Bytes are available.
    Ready,
    /// The other side has closed.
    Closed,
    /// The server should stop.
    Stopped,
}

/// The deadline of a message. It is computed at the first wait, so that messages without waiting
/// need no clock.
#[derive(Debug)]
struct Deadline {
    allowed: Duration,
    until: Option<Instant>,
}

impl Deadline {
    fn of(patience: Duration, bytes: u64) -> Self {
        let line = Duration::from_millis(bytes.saturating_mul(1000) / SLOWEST_RATE);
        Self { allowed: patience.saturating_add(line), until: None }
    }

    fn check(&mut self) -> io::Result<()> {
        let (now, allowed) = (Instant::now(), self.allowed);
        if now < *self.until.get_or_insert_with(|| now.checked_add(allowed).unwrap_or(now)) {
            return Ok(());
        }
        Err(io::Error::new(ErrorKind::TimedOut, "the client left a message half sent or half received"))
    }
}

/// Sends all bytes; the client must accept them within its patience plus the time at the slowest
/// rate.
pub fn write_all(to: &mut impl Write, mut bytes: &[u8], patience: Duration) -> io::Result<()> {
    let mut deadline = Deadline::of(patience, bytes.len() as u64);
    while !bytes.is_empty() {
        match to.write(bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
            Err(error) if error.kind() == ErrorKind::Interrupted || is_pause(&error) => {}
            Err(error) => return Err(error),
        }
        if !bytes.is_empty() {
            deadline.check()?;
        }
    }
    Ok(())
}

fn is_pause(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

impl<T: Transport> Wire<T> {
    /// A connection whose client has `patience` for each message.
    pub fn new(transport: T, patience: Duration) -> Self {
        let input = vec![0; INPUT_BYTES];
        let output = Vec::with_capacity(4096);
        let deadline = Deadline::of(patience, 0);
        Self { transport, input, start: 0, end: 0, output, patience, deadline, all_until: None, held: false }
    }

    /// Begins a message of `bytes`, which must arrive within the patience plus the time at the
    /// slowest rate.
    pub fn begin(&mut self, bytes: u64) {
        self.deadline = Deadline::of(self.patience, bytes);
    }

    /// Limits the total time of all messages until [`Wire::end_limit`].
    pub fn limit(&mut self, within: Duration) {
        self.all_until = Instant::now().checked_add(within);
    }

    /// Ends the limit; each message has its own deadline again.
    pub fn end_limit(&mut self) {
        self.all_until = None;
    }

    /// Number of buffered input bytes.
    pub fn buffered(&self) -> usize {
        self.end - self.start
    }

    /// Waits without limit until bytes are available or `stop` returns true.
    pub fn wait(&mut self, stop: &dyn Fn() -> bool) -> io::Result<Waited> {
        while self.buffered() == 0 {
            if stop() {
                return Ok(Waited::Stopped);
            }
            match self.fill() {
                Ok(0) => return Ok(Waited::Closed),
                Ok(_) => {}
                Err(error) if is_pause(&error) || error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Waited::Ready)
    }

    fn fill(&mut self) -> io::Result<usize> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.end == self.input.len() {
            self.input.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let space = self.input.get_mut(self.end..).unwrap_or_default();
        let count = self.transport.read(space)?;
        self.end += count;
        Ok(count)
    }

    /// Fills `into`. Error: the client closes or stalls before.
    pub fn read(&mut self, into: &mut [u8]) -> io::Result<()> {
        let here = self.input.get(self.start..self.end).unwrap_or_default();
        let count = here.len().min(into.len());
        let (first, mut rest) = into.split_at_mut(count);
        first.copy_from_slice(here.get(..count).unwrap_or_default());
        self.start += count;
        while !rest.is_empty() {
            match self.transport.read(rest) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => rest = rest.get_mut(count..).unwrap_or_default(),
                Err(error) if error.kind() == ErrorKind::Interrupted || is_pause(&error) => {}
                Err(error) => return Err(error),
            }
            if !rest.is_empty() {
                self.still_patient()?;
            }
        }
        Ok(())
    }

    /// Checks the deadline of an unfinished message.
    fn still_patient(&mut self) -> io::Result<()> {
        if self.all_until.is_some_and(|until| Instant::now() >= until) {
            return Err(io::Error::new(ErrorKind::TimedOut, "the handshake takes too long"));
        }
        self.deadline.check()
    }

    /// Reads `N` bytes.
    pub fn array<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.read(&mut bytes)?;
        Ok(bytes)
    }

    /// Reads and discards `bytes`.
    pub fn skip(&mut self, mut bytes: u64) -> io::Result<()> {
        let mut scratch = [0; 4096];
        while bytes > 0 {
            let part = bytes.min(scratch.len() as u64);
            self.read(scratch.get_mut(..part as usize).unwrap_or_default())?;
            bytes -= part;
        }
        Ok(())
    }

    /// Holds all output until [`Wire::take_output`].
    pub fn hold(&mut self) {
        self.held = true;
    }

    /// Adds output for the next [`Wire::send`]; a full buffer is sent at once.
    pub fn push(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.output.len() + bytes.len() > OUTPUT_BYTES {
            self.send()?;
        }
        if bytes.len() >= OUTPUT_BYTES && !self.held {
            return self.write(bytes);
        }
        self.output.extend_from_slice(bytes);
        Ok(())
    }

    /// Takes the pending output, to send it later.
    pub fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.output)
    }

    /// Sends the pending output.
    pub fn send(&mut self) -> io::Result<()> {
        if self.held {
            return Ok(());
        }
        let output = std::mem::take(&mut self.output);
        let result = self.write(&output);
        self.output = output;
        self.output.clear();
        result
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        write_all(&mut self.transport, bytes, self.patience)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A transport with a byte every few milliseconds in each direction.
    struct Dripping;

    impl Read for Dripping {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            std::thread::sleep(Duration::from_millis(5));
            Ok(into.len().min(1))
        }
    }

    impl Write for Dripping {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            std::thread::sleep(Duration::from_millis(5));
            Ok(bytes.len().min(1))
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_byte_now_and_then_is_not_enough() {
        let mut wire = Wire::new(Dripping, Duration::from_millis(50));
        wire.begin(4096);
        assert_eq!(wire.read(&mut [0; 4096]).unwrap_err().kind(), ErrorKind::TimedOut);
        wire.begin(1 << 20);
        wire.limit(Duration::from_millis(50));
        assert!(wire.skip(1 << 20).unwrap_err().to_string().contains("handshake"));
        wire.end_limit();
        wire.push(&[1; 4096]).unwrap();
        assert_eq!(wire.send().unwrap_err().kind(), ErrorKind::TimedOut);
        // A slow but acceptable message is not cut off.
        let mut wire = Wire::new(Dripping, Duration::from_secs(60));
        wire.begin(3);
        wire.read(&mut [0; 3]).unwrap();
    }
}

//! Serves one client from handshake to disconnect.

use std::io::{self, ErrorKind};
use std::time::Instant;

use nandkit_block::{BlockError, Result as BlockResult};
use nandkit_units::Done;

use crate::export::{Export, error_number};
use crate::handshake::{Agreed, Refused, handshake};
use crate::pace::Pacer;
use crate::protocol::{command, command_flag, error};
use crate::reply;
use crate::request::{HEADER_BYTES, Request};
use crate::wire::{Transport, Waited, Wire};

/// How a connection ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Ended {
    /// The client sent a disconnect request.
    Disconnected,
    /// The client closed the connection between two requests, or left during the handshake.
    Closed,
    /// The server cut it off because of a protocol violation, a timeout or a connection error; a
    /// description.
    Dropped(String),
    /// The server stops.
    Stopped,
    /// There were too many clients.
    TurnedAway,
}

/// Requests are processed in parts of this many bytes, which limits the memory per client.
const PIECE: u64 = 1 << 20;
/// Longest read that may not be fragmented.
const UNFRAGMENTED: u32 = 1 << 20;

/// Serves one client until it ends. `pacer` delays replies by the simulated time.
pub fn serve_client<T: Transport>(
    wire: &mut Wire<T>,
    export: &Export,
    pacer: Option<&Pacer>,
    stop: &dyn Fn() -> bool,
) -> Ended {
    let agreed = match handshake(wire, export) {
        Ok(agreed) => agreed,
        Err(Refused::Aborted) => return Ended::Closed,
        Err(Refused::Broken(what)) => return Ended::Dropped(what.to_string()),
        Err(Refused::Io(error)) if is_gone(&error) => return Ended::Closed,
        Err(Refused::Io(error)) => return Ended::Dropped(error.to_string()),
    };
    if pacer.is_some() {
        wire.hold();
    }
    let mut client = Client { wire, export, agreed, pacer, buffer: Vec::new(), due: None };
    match client.run(stop) {
        Ok(ended) => ended,
        Err(error) => Ended::Dropped(error.to_string()),
    }
}

/// Whether the other side has closed.
fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe | ErrorKind::ConnectionReset)
}

struct Client<'a, T> {
    wire: &'a mut Wire<T>,
    export: &'a Export,
    agreed: Agreed,
    pacer: Option<&'a Pacer>,
    buffer: Vec<u8>,
    /// When the current request completes.
    due: Option<Instant>,
}

impl<T: Transport> Client<'_, T> {
    fn run(&mut self, stop: &dyn Fn() -> bool) -> io::Result<Ended> {
        loop {
            if self.wire.buffered() < HEADER_BYTES {
                // Send now: the client may wait for its replies before it continues.
                self.wire.send()?;
                match self.wire.wait(stop)? {
                    Waited::Ready => {}
                    Waited::Closed => return Ok(Ended::Closed),
                    Waited::Stopped => return Ok(Ended::Stopped),
                }
            }
            self.wire.begin(0);
            let header = self.wire.array()?;
            let Some(request) = Request::decode(&header) else {
                return Ok(Ended::Dropped("a request without its magic number".to_string()));
            };
            if request.command == command::DISCONNECT {
                self.wire.send()?;
                return Ok(Ended::Disconnected);
            }
            self.answer(&request)?;
            if !self.hand_over(false) {
                return Ok(Ended::Closed);
            }
            self.due = None;
        }
    }

    /// Passes the pending output to the pacer, if there is one; returns false if the client accepts
    /// no more.
    fn hand_over(&mut self, more: bool) -> bool {
        let Some(pacer) = self.pacer else { return true };
        pacer.put(self.due.unwrap_or_else(Instant::now), self.wire.take_output(), more)
    }

    fn answer(&mut self, request: &Request) -> io::Result<()> {
        self.wire.begin(request.payload());
        if let Err(number) = request.check(self.export, self.agreed.allocation) {
            self.wire.skip(request.payload())?;
            return self.refuse(request, number, "the export cannot do this", None);
        }
        match request.command {
            command::READ => return self.read(request),
            command::BLOCK_STATUS => {
                let one = request.has(command_flag::REQ_ONE);
                return match self.export.extents(request.offset, request.length, one) {
                    Ok(extents) => self.wire.push(&reply::block_status(request.cookie, &extents)),
                    Err(error) => self.fail(request, &error),
                };
            }
            _ => {}
        }
        let done = match request.command {
            command::WRITE => self.write(request)?,
            command::FLUSH => self.export.flush().map(Some),
            command::TRIM => self.export.trim(request.offset, u64::from(request.length)).map(Some),
            command::WRITE_ZEROES => {
                let (no_hole, fast) = (request.has(command_flag::NO_HOLE), request.has(command_flag::FAST_ZERO));
                self.export.write_zeroes(request.offset, u64::from(request.length), no_hole, fast)
            }
            // There is no read-ahead cache: nothing to do, which is a valid answer.
            _ => Ok(None),
        };
        self.conclude(request, done)
    }

    /// Replies to a request without returned data.
    fn conclude(&mut self, request: &Request, done: BlockResult<Option<Done>>) -> io::Result<()> {
        let durable = |done: Option<Done>| match (done, request.has(command_flag::FUA)) {
            (Some(done), true) if !matches!(request.command, command::FLUSH | command::WRITE) => {
                Ok(Some(done.and(self.export.flush()?)))
            }
            (done, _) => Ok(done),
        };
        match done.and_then(durable) {
            Ok(None) if request.command == command::WRITE_ZEROES => {
                self.refuse(request, error::ENOTSUP, "no faster than writing", None)
            }
            Ok(done) => {
                self.completes(done);
                self.succeed(request)
            }
            Err(error) => self.fail(request, &error),
        }
    }

    fn completes(&mut self, done: Option<Done>) {
        if let Some(instant) = done.and_then(|done| self.export.host_time(done.completed)) {
            self.due = Some(self.due.map_or(instant, |due| due.max(instant)));
        }
    }

    fn succeed(&mut self, request: &Request) -> io::Result<()> {
        self.wire.push(&reply::simple(request.cookie, 0))
    }

    fn fail(&mut self, request: &Request, error: &BlockError) -> io::Result<()> {
        let at = (request.command == command::READ).then_some(request.offset);
        self.refuse(request, error_number(error), &error.to_string(), at)
    }

    /// Replies with an error, and with a message if replies are structured.
    fn refuse(&mut self, request: &Request, number: u32, message: &str, at: Option<u64>) -> io::Result<()> {
        if self.agreed.structured {
            self.wire.push(&reply::error(request.cookie, number, message, at))
        } else {
            self.wire.push(&reply::simple(request.cookie, number))
        }
    }

    /// Receives a write's data part by part, completely even if the device refuses it.
    fn write(&mut self, request: &Request) -> io::Result<BlockResult<Option<Done>>> {
        let mut result: BlockResult<Option<Done>> = Ok(None);
        for (offset, length) in pieces(request) {
            self.buffer.resize(length, 0);
            self.wire.read(&mut self.buffer)?;
            if let Ok(before) = &result {
                let written = match request.has(command_flag::FUA) {
                    true => self.export.write_durable(offset, &self.buffer),
                    false => self.export.write(offset, &self.buffer),
                };
                result = written.map(|done| Some(before.map_or(done, |before| before.and(done))));
            }
        }
        Ok(result)
    }

    fn read(&mut self, request: &Request) -> io::Result<()> {
        let whole = self.agreed.structured && request.has(command_flag::DF);
        if whole && request.length > UNFRAGMENTED {
            return self.refuse(request, error::EOVERFLOW, "too long for one fragment", None);
        }
        let mut begun = false;
        let end = request.offset + u64::from(request.length);
        let parts = if whole { vec![(request.offset, request.length as usize)] } else { pieces(request).collect() };
        for (offset, length) in parts {
            self.buffer.resize(length, 0);
            match self.export.read(offset, &mut self.buffer) {
                Ok(done) => self.completes(Some(done)),
                Err(error) if begun && !self.agreed.structured => {
                    // A simple reply cannot report an error after it has begun: the protocol
                    // requires a disconnect.
                    return Err(io::Error::other(error));
                }
                Err(error) if self.agreed.structured => {
                    let (number, text) = (error_number(&error), error.to_string());
                    return self.wire.push(&reply::error(request.cookie, number, &text, Some(offset)));
                }
                Err(error) => return self.fail(request, &error),
            }
            if self.agreed.structured {
                let last = offset + length as u64 == end;
                self.wire.push(&reply::data(request.cookie, offset, length as u32, last))?;
            } else if !begun {
                self.succeed(request)?;
            }
            begun = true;
            self.wire.push(&self.buffer)?;
            if offset + (length as u64) < end && !self.hand_over(true) {
                return Err(ErrorKind::BrokenPipe.into());
            }
        }
        Ok(())
    }
}

/// The parts of a request: up to 1 MiB each, aligned to 1 MiB.
fn pieces(request: &Request) -> impl Iterator<Item = (u64, usize)> + use<> {
    let end = request.offset + u64::from(request.length);
    let mut at = request.offset;
    std::iter::from_fn(move || {
        let length = (PIECE - at % PIECE).min(end - at);
        let piece = (at, length as usize);
        at += length;
        (length > 0).then_some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_cut_on_boundaries() {
        let request = |offset, length| Request { flags: 0, command: 0, cookie: 0, offset, length };
        let cut = |offset, length| pieces(&request(offset, length)).collect::<Vec<_>>();
        assert_eq!(cut(0, 4096), [(0, 4096)]);
        assert_eq!(cut(PIECE - 1, 3), [(PIECE - 1, 1), (PIECE, 2)]);
        assert_eq!(cut(5, 3 << 20).iter().map(|(_, length)| *length as u64).sum::<u64>(), 3 << 20);
        assert_eq!(cut(5, 3 << 20).len(), 4);
    }
}

//! The handshake (fixed newstyle): the client negotiates options until it requests the export or
//! disconnects.

use std::io;
use std::time::Duration;

use crate::export::Export;
use crate::protocol::{
    ALLOCATION_CONTEXT, ALLOCATION_CONTEXT_ID, INIT_MAGIC, OPTION_MAGIC, OPTION_MAX, OPTION_REPLY_MAGIC, REQUEST_MAX,
    STRING_MAX, handshake_flag, info, option, option_reply,
};
use crate::wire::{Transport, Wire};

/// The negotiated options.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Agreed {
    /// Whether replies may be structured.
    pub structured: bool,
    /// Whether the client requested `base:allocation`.
    pub allocation: bool,
}

/// Why a handshake ended without an export.
#[derive(Debug)]
pub enum Refused {
    /// The client ended it.
    Aborted,
    /// The client violated the protocol; a description.
    Broken(&'static str),
    /// The connection failed.
    Io(io::Error),
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Longest time for a handshake, so that idle connections do not block others.
const DEADLINE: Duration = Duration::from_secs(10);
/// Largest number of options.
const OPTIONS_MAX: usize = 256;

/// Negotiates with a client. Cost: a few messages; at most [`OPTION_MAX`] bytes are stored.
pub fn handshake<T: Transport>(wire: &mut Wire<T>, export: &Export) -> Result<Agreed, Refused> {
    wire.limit(DEADLINE);
    wire.push(&INIT_MAGIC.to_be_bytes())?;
    wire.push(&OPTION_MAGIC.to_be_bytes())?;
    wire.push(&(handshake_flag::FIXED_NEWSTYLE | handshake_flag::NO_ZEROES).to_be_bytes())?;
    wire.send()?;
    let flags = u32::from_be_bytes(wire.array()?);
    let known = u32::from(handshake_flag::FIXED_NEWSTYLE | handshake_flag::NO_ZEROES);
    if flags & !known != 0 {
        return Err(Refused::Broken("unknown flags in the handshake"));
    }
    let no_zeroes = flags & u32::from(handshake_flag::NO_ZEROES) != 0;
    let mut agreed = Agreed::default();
    for _ in 0..OPTIONS_MAX {
        if let Some(ended) = one_option(wire, export, &mut agreed, no_zeroes)? {
            wire.send()?;
            wire.end_limit();
            return if ended { Ok(agreed) } else { Err(Refused::Aborted) };
        }
        wire.send()?;
    }
    Err(Refused::Broken("too many options"))
}

/// Handles one option. `Some(true)`: requests begin; `Some(false)`: the client disconnects.
fn one_option<T: Transport>(
    wire: &mut Wire<T>,
    export: &Export,
    agreed: &mut Agreed,
    no_zeroes: bool,
) -> Result<Option<bool>, Refused> {
    wire.begin(0);
    if u64::from_be_bytes(wire.array()?) != OPTION_MAGIC {
        return Err(Refused::Broken("an option without its magic number"));
    }
    let number = u32::from_be_bytes(wire.array()?);
    let length = u32::from_be_bytes(wire.array()?);
    wire.begin(u64::from(length));
    if length > OPTION_MAX {
        if number == option::EXPORT_NAME {
            return Err(Refused::Broken("a name too long"));
        }
        wire.skip(u64::from(length))?;
        answer(wire, number, option_reply::ERR_TOO_BIG, b"the option is too long")?;
        return Ok(None);
    }
    let mut data = vec![0; length as usize];
    wire.read(&mut data)?;
    match number {
        option::EXPORT_NAME => {
            if !export.is_called(&data) {
                return Err(Refused::Broken("no export has this name"));
            }
            wire.push(&export.size().to_be_bytes())?;
            wire.push(&export.flags().to_be_bytes())?;
            if !no_zeroes {
                wire.push(&[0; 124])?;
            }
            return Ok(Some(true));
        }
        option::ABORT => {
            answer(wire, number, option_reply::ACK, b"")?;
            return Ok(Some(false));
        }
        option::LIST if data.is_empty() => {
            let name = export.name();
            let entry = [&(name.len() as u32).to_be_bytes(), name].concat();
            answer(wire, number, option_reply::SERVER, &entry)?;
            answer(wire, number, option_reply::ACK, b"")?;
        }
        option::STRUCTURED_REPLY if data.is_empty() => {
            agreed.structured = true;
            answer(wire, number, option_reply::ACK, b"")?;
        }
        option::LIST | option::STRUCTURED_REPLY => {
            answer(wire, number, option_reply::ERR_INVALID, b"this option takes no data")?;
        }
        option::INFO | option::GO => {
            if describe(wire, export, number, &data)? && number == option::GO {
                return Ok(Some(true));
            }
        }
        option::LIST_META_CONTEXT | option::SET_META_CONTEXT => contexts(wire, export, agreed, number, &data)?,
        option::STARTTLS => answer(wire, number, option_reply::ERR_POLICY, b"this server has no TLS")?,
        _ => answer(wire, number, option_reply::ERR_UNSUP, b"this server does not know the option")?,
    }
    Ok(None)
}

fn answer<T: Transport>(wire: &mut Wire<T>, number: u32, kind: u32, data: &[u8]) -> io::Result<()> {
    wire.push(&OPTION_REPLY_MAGIC.to_be_bytes())?;
    wire.push(&number.to_be_bytes())?;
    wire.push(&kind.to_be_bytes())?;
    wire.push(&(data.len() as u32).to_be_bytes())?;
    wire.push(data)
}

/// Takes bytes from the front of an option's data.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (first, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(first)
    }

    fn u16(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes(self.bytes(2)?.try_into().ok()?))
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(self.bytes(4)?.try_into().ok()?))
    }

    /// A string preceded by its length.
    fn string(&mut self) -> Option<&'a [u8]> {
        let length = self.u32()? as usize;
        if length > STRING_MAX { None } else { self.bytes(length) }
    }

    const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Answers `INFO` and `GO`; returns whether the export was found.
fn describe<T: Transport>(wire: &mut Wire<T>, export: &Export, number: u32, data: &[u8]) -> io::Result<bool> {
    let mut fields = Fields(data);
    let asked = (|| {
        let name = fields.string()?;
        let count = usize::from(fields.u16()?);
        let requests: Vec<u16> = (0..count).map_while(|_| fields.u16()).collect();
        (requests.len() == count && fields.is_empty()).then_some((name, requests))
    })();
    let Some((name, requests)) = asked else {
        answer(wire, number, option_reply::ERR_INVALID, b"the option's length does not fit its content")?;
        return Ok(false);
    };
    if !export.is_called(name) {
        answer(wire, number, option_reply::ERR_UNKNOWN, b"no export has this name")?;
        return Ok(false);
    }
    let mut tell = |kind: u16, parts: &[&[u8]]| {
        let data = [&kind.to_be_bytes()[..], &parts.concat()].concat();
        answer(wire, number, option_reply::INFO, &data)
    };
    tell(info::EXPORT, &[&export.size().to_be_bytes(), &export.flags().to_be_bytes()])?;
    if requests.contains(&info::NAME) {
        tell(info::NAME, &[export.name()])?;
    }
    if requests.contains(&info::DESCRIPTION) {
        tell(info::DESCRIPTION, &[export.description().as_bytes()])?;
    }
    // Sent even if not requested, as the protocol allows, so that the client can choose suitable
    // request sizes.
    let sizes = [export.smallest(), export.preferred(), REQUEST_MAX].map(u32::to_be_bytes);
    tell(info::BLOCK_SIZE, &[sizes.as_flattened()])?;
    answer(wire, number, option_reply::ACK, b"")?;
    Ok(true)
}

/// Answers the two options on metadata contexts; there is only one context.
fn contexts<T: Transport>(
    wire: &mut Wire<T>,
    export: &Export,
    agreed: &mut Agreed,
    number: u32,
    data: &[u8],
) -> io::Result<()> {
    let setting = number == option::SET_META_CONTEXT;
    if setting {
        agreed.allocation = false;
    }
    let mut fields = Fields(data);
    let asked = (|| {
        let name = fields.string()?;
        let count = fields.u32()? as usize;
        let queries: Vec<&[u8]> = (0..count.min(data.len())).map_while(|_| fields.string()).collect();
        (queries.len() == count && fields.is_empty()).then_some((name, queries))
    })();
    let Some((name, queries)) = asked else {
        return answer(wire, number, option_reply::ERR_INVALID, b"the option's length does not fit its content");
    };
    if !export.is_called(name) {
        return answer(wire, number, option_reply::ERR_UNKNOWN, b"no export has this name");
    }
    if setting && !agreed.structured {
        return answer(
            wire,
            number,
            option_reply::ERR_INVALID,
            b"contexts need structured replies: ask for those first",
        );
    }
    let all = !setting && queries.is_empty();
    let wanted = |query: &&[u8]| *query == ALLOCATION_CONTEXT || !setting && *query == b"base:";
    if all || queries.iter().any(wanted) {
        let id = if setting { ALLOCATION_CONTEXT_ID } else { 0 };
        answer(wire, number, option_reply::META_CONTEXT, &[&id.to_be_bytes(), ALLOCATION_CONTEXT].concat())?;
        agreed.allocation |= setting;
    }
    answer(wire, number, option_reply::ACK, b"")
}

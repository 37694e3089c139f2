//! Requests: decoded, and checked against the export before memory is allocated.

use crate::export::Export;
use crate::protocol::{REQUEST_MAGIC, REQUEST_MAX, command, command_flag, error};

/// Bytes of a request's header.
pub const HEADER_BYTES: usize = 28;

/// A decoded request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Flags.
    pub flags: u16,
    /// Number of the command.
    pub command: u16,
    /// The client's identifier, returned with the reply.
    pub cookie: u64,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u32,
}

impl Request {
    /// Decodes a header; `None` if the magic number is wrong, after which the connection cannot be
    /// trusted.
    pub fn decode(header: &[u8; HEADER_BYTES]) -> Option<Self> {
        let [m0, m1, m2, m3, f0, f1, c0, c1, k0, k1, k2, k3, k4, k5, k6, k7, rest @ ..] = *header;
        let [o0, o1, o2, o3, o4, o5, o6, o7, l0, l1, l2, l3] = rest;
        (u32::from_be_bytes([m0, m1, m2, m3]) == REQUEST_MAGIC).then(|| Self {
            flags: u16::from_be_bytes([f0, f1]),
            command: u16::from_be_bytes([c0, c1]),
            cookie: u64::from_be_bytes([k0, k1, k2, k3, k4, k5, k6, k7]),
            offset: u64::from_be_bytes([o0, o1, o2, o3, o4, o5, o6, o7]),
            length: u32::from_be_bytes([l0, l1, l2, l3]),
        })
    }

    /// Whether the flag is set.
    pub const fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    /// How many bytes follow the header.
    pub const fn payload(&self) -> u64 {
        if self.command == command::WRITE { self.length as u64 } else { 0 }
    }

    /// Checks that the export supports the request. Error: the protocol's error number.
    pub fn check(&self, export: &Export, allocation: bool) -> Result<(), u32> {
        let (known, changes, limited) = match self.command {
            command::READ => (command_flag::DF | command_flag::FUA, false, true),
            command::WRITE => (command_flag::FUA, true, true),
            command::FLUSH => (command_flag::FUA, false, false),
            command::TRIM => (command_flag::FUA, true, false),
            command::CACHE => (command_flag::FUA, false, false),
            command::WRITE_ZEROES => (command_flag::FUA | command_flag::NO_HOLE | command_flag::FAST_ZERO, true, false),
            command::BLOCK_STATUS if allocation => (command_flag::REQ_ONE | command_flag::FUA, false, false),
            _ => return Err(error::EINVAL),
        };
        if self.flags & !known != 0 {
            return Err(error::EINVAL);
        }
        if changes && export.is_read_only() {
            return Err(error::EPERM);
        }
        if self.command == command::FLUSH {
            // "Offset and length are reserved, and MUST be set to all-zero": other servers accept
            // other values.
            return Ok(());
        }
        if limited && self.length > REQUEST_MAX {
            return Err(error::EOVERFLOW);
        }
        let inside = self.offset.checked_add(u64::from(self.length)).is_some_and(|end| end <= export.size());
        match (inside, self.length) {
            (true, 1..) => Ok(()),
            (false, _) if changes => Err(error::ENOSPC),
            _ => Err(error::EINVAL),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_decoded_and_one_without_magic_is_not() {
        let mut header = [0; HEADER_BYTES];
        header[..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
        header[4..].copy_from_slice(&[0, 1, 0, 6, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 2, 0]);
        let request = Request::decode(&header).unwrap();
        assert_eq!((request.command, request.flags, request.offset, request.length), (6, 1, 4096, 512));
        assert_eq!(request.cookie, 0x0102_0304_0506_0708);
        header[0] = 0;
        assert_eq!(Request::decode(&header), None);
    }
}

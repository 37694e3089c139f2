//! The numbers of the protocol, with the names of `doc/proto.md`.

/// `NBDMAGIC`: a server's first eight bytes.
pub const INIT_MAGIC: u64 = 0x4e42_444d_4147_4943;
/// `IHAVEOPT`: begins newstyle, and every option.
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// Begins the answer to an option.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// Begins a request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// Begins a simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// Begins a chunk of a structured reply.
pub const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;

/// Flags of the handshake, and of the client's answer.
pub mod handshake_flag {
    /// The server answers every option.
    pub const FIXED_NEWSTYLE: u16 = 1;
    /// No 124 zeroes behind the answer to `EXPORT_NAME`.
    pub const NO_ZEROES: u16 = 2;
}

/// Options of a client before requests begin.
#[allow(missing_docs, reason = "the protocol's names")]
pub mod option {
    pub const EXPORT_NAME: u32 = 1;
    pub const ABORT: u32 = 2;
    pub const LIST: u32 = 3;
    pub const STARTTLS: u32 = 5;
    pub const INFO: u32 = 6;
    pub const GO: u32 = 7;
    pub const STRUCTURED_REPLY: u32 = 8;
    pub const LIST_META_CONTEXT: u32 = 9;
    pub const SET_META_CONTEXT: u32 = 10;
}

/// Answers to options.
#[allow(missing_docs, reason = "the protocol's names")]
pub mod option_reply {
    pub const ACK: u32 = 1;
    pub const SERVER: u32 = 2;
    pub const INFO: u32 = 3;
    pub const META_CONTEXT: u32 = 4;
    pub const ERR_UNSUP: u32 = 0x8000_0001;
    pub const ERR_POLICY: u32 = 0x8000_0002;
    pub const ERR_INVALID: u32 = 0x8000_0003;
    pub const ERR_UNKNOWN: u32 = 0x8000_0006;
    pub const ERR_TOO_BIG: u32 = 0x8000_0009;
}

/// Information types of `INFO` and `GO`.
#[allow(missing_docs, reason = "the protocol's names")]
pub mod info {
    pub const EXPORT: u16 = 0;
    pub const NAME: u16 = 1;
    pub const DESCRIPTION: u16 = 2;
    pub const BLOCK_SIZE: u16 = 3;
}

/// Capabilities of an export.
#[allow(missing_docs, reason = "the protocol's names")]
pub mod transmission_flag {
    pub const HAS_FLAGS: u16 = 1;
    pub const READ_ONLY: u16 = 1 << 1;
    pub const SEND_FLUSH: u16 = 1 << 2;
    pub const SEND_FUA: u16 = 1 << 3;
    pub const SEND_TRIM: u16 = 1 << 5;
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    pub const SEND_DF: u16 = 1 << 7;
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
    pub const SEND_CACHE: u16 = 1 << 10;
    pub const SEND_FAST_ZERO: u16 = 1 << 11;
}

/// Kinds of requests.
#[allow(missing_docs, reason = "the protocol's names")]
pub mod command {
    pub const READ: u16 = 0;
    pub const WRITE: u16 = 1;
    pub const DISCONNECT: u16 = 2;
    pub const FLUSH: u16 = 3;
    pub const TRIM: u16 = 4;
    pub const CACHE: u16 = 5;
    pub const WRITE_ZEROES: u16 = 6;
    pub const BLOCK_STATUS: u16 = 7;
    pub const RESIZE: u16 = 8;
}

/// Flags of requests.
#[allow(missing_docs, reason = "the protocol's names")]
pub mod command_flag {
    pub const FUA: u16 = 1;
    pub const NO_HOLE: u16 = 1 << 1;
    pub const DF: u16 = 1 << 2;
    pub const REQ_ONE: u16 = 1 << 3;
    pub const FAST_ZERO: u16 = 1 << 4;
}

/// Kinds of chunks.
#[allow(missing_docs, reason = "the protocol's names")]
pub mod chunk {
    pub const DONE: u16 = 1;
    pub const OFFSET_DATA: u16 = 1;
    pub const BLOCK_STATUS: u16 = 5;
    pub const ERROR: u16 = 0x8001;
    pub const ERROR_OFFSET: u16 = 0x8002;
}

/// Error numbers, always those of Linux.
#[allow(missing_docs, reason = "the protocol's names")]
pub mod error {
    pub const EPERM: u32 = 1;
    pub const EIO: u32 = 5;
    pub const EINVAL: u32 = 22;
    pub const ENOSPC: u32 = 28;
    pub const EOVERFLOW: u32 = 75;
    pub const ENOTSUP: u32 = 95;
}

/// The only metadata context: which parts of the device hold data.
pub const ALLOCATION_CONTEXT: &[u8] = b"base:allocation";
/// Its number in replies.
pub const ALLOCATION_CONTEXT_ID: u32 = 1;

/// Longest request in bytes: the size that `doc/proto.md` lets a client assume.
pub const REQUEST_MAX: u32 = 32 << 20;
/// Longest name of an export (`doc/proto.md`, "Strings"), and of a query of contexts.
pub const STRING_MAX: usize = 4096;
/// Longest option in bytes; a list of context queries fits.
pub const OPTION_MAX: u32 = 64 << 10;

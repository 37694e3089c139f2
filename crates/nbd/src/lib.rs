//! An NBD server: any [`nandkit_block::BlockDevice`] as a disk for QEMU, Linux, fio and libnbd.
//!
//! The protocol is that of the NetworkBlockDevice project's `doc/proto.md`: fixed newstyle,
//! structured replies, block sizes, `base:allocation`. Clients may be hostile: every length is
//! checked before memory is allocated, and a client that violates the protocol is disconnected
//! without affecting others.
//!
//! | module | what is there |
//! | --- | --- |
//! | [`protocol`] | the protocol's numbers |
//! | `wire` | bytes in and out, with patience for slow clients |
//! | `handshake` | which export, which options |
//! | `request` | one request, checked |
//! | `reply` | simple and structured replies |
//! | `client` | a client from its first request to its last |
//! | [`export`] | the device behind a lock, in bytes instead of sectors |
//! | `observer` | who counts what clients asked for |
//! | [`pace`] | replies that take the simulated time |
//! | [`server`] | sockets, and a thread for each client |

mod client;
pub mod export;
mod handshake;
mod observer;
pub mod pace;
pub mod protocol;
mod reply;
mod request;
pub mod server;
mod wire;

pub use client::{Ended, serve_client};
pub use export::Export;
pub use observer::{Observer, RequestKind};
pub use pace::Latency;
pub use server::{Endpoint, Server, ServerOptions};
pub use wire::{Transport, Wire};

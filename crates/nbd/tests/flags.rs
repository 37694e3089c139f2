//! The flags of requests, and the requests that few clients make.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nandkit_block::{BlockDevice, BlockError, BlockGeometry, ErrorKind, Operation, RamDevice, Result};
use nandkit_nbd::Export;
use nandkit_nbd::protocol::{ALLOCATION_CONTEXT, chunk, command, command_flag, error, option, option_reply};
use nandkit_units::{Context, Done, Lba, Payload, ReadInto};

use crate::common::{Client, export};

const MIB: u64 = 1 << 20;

#[test]
fn a_read_that_may_not_be_split_comes_in_one_piece_or_not_at_all() {
    let export = export(4 * MIB);
    let mut client = Client::ready(&export, true);
    client.request(0, command::WRITE, MIB - 512, 1024, &[7; 1024]);
    assert_eq!(client.simple(), 0);
    client.request(command_flag::DF, command::READ, MIB - 512, 1024, b"");
    let (flags, kind, content) = client.chunk();
    assert_eq!((flags, kind, content.len()), (chunk::DONE, chunk::OFFSET_DATA, 8 + 1024));
    assert_eq!(content[8..], [7; 1024]);
    client.request(command_flag::DF, command::READ, 0, 2 << 20, b"");
    let (flags, kind, content) = client.chunk();
    assert_eq!((flags, kind), (chunk::DONE, chunk::ERROR));
    assert_eq!(content[..4], error::EOVERFLOW.to_be_bytes());
}

#[test]
fn what_is_told_of_a_range_is_the_first_part_where_one_is_asked_for() {
    let export = export(4 * MIB);
    let mut client = Client::greeted(&export);
    client.ask(option::STRUCTURED_REPLY, b"");
    assert_eq!(client.option_reply().0, option_reply::ACK);
    let query = [&4u32.to_be_bytes()[..], b"disk", &1u32.to_be_bytes(), &15u32.to_be_bytes(), ALLOCATION_CONTEXT];
    for asked in [option::LIST_META_CONTEXT, option::SET_META_CONTEXT] {
        client.ask(asked, &query.concat());
        let (kind, content) = client.option_reply();
        assert_eq!((kind, &content[4..]), (option_reply::META_CONTEXT, ALLOCATION_CONTEXT));
        assert_eq!(client.option_reply().0, option_reply::ACK);
    }
    client.ask(option::GO, &[0, 0, 0, 4, b'd', b'i', b's', b'k', 0, 0]);
    while client.option_reply().0 != option_reply::ACK {}
    client.request(0, command::WRITE, MIB, 65_536, &[1; 65_536]);
    assert_eq!(client.simple(), 0);
    for (flags, parts) in [(0, 3), (command_flag::REQ_ONE, 1)] {
        client.request(flags, command::BLOCK_STATUS, 0, 4 << 20, b"");
        let (end, kind, content) = client.chunk();
        assert_eq!((end, kind, content.len()), (chunk::DONE, chunk::BLOCK_STATUS, 4 + 8 * parts));
        assert_eq!(content[4..12], [&(1u32 << 20).to_be_bytes()[..], &3u32.to_be_bytes()].concat());
    }
}

#[test]
fn requests_that_few_clients_make_do_what_they_say() {
    let export = export(4 * MIB);
    let mut client = Client::ready(&export, false);
    client.request(0, command::WRITE, 0, 8192, &[5; 8192]);
    assert_eq!(client.simple(), 0);
    for (flags, what) in [
        (0, command::CACHE),
        (command_flag::NO_HOLE, command::WRITE_ZEROES),
        (command_flag::FUA, command::TRIM),
        (command_flag::FUA, command::WRITE_ZEROES),
        (command_flag::FAST_ZERO, command::WRITE_ZEROES),
        (command_flag::FUA, command::FLUSH),
    ] {
        let length = if what == command::FLUSH { 0 } else { 4096 };
        client.request(flags, what, 0, length, b"");
        assert_eq!(client.simple(), 0, "{what} with {flags}");
    }
    client.request(0, command::READ, 0, 8192, b"");
    assert_eq!(client.simple(), 0);
    assert_eq!(client.bytes(8192), [[0; 4096], [5; 4096]].concat());
}

/// A device that counts how it was made to keep what was written.
#[derive(Default)]
struct WriteCounts {
    durable_writes: AtomicU64,
    flushes: AtomicU64,
}

struct Counting(RamDevice, Arc<WriteCounts>);

impl BlockDevice for Counting {
    fn geometry(&self) -> &BlockGeometry {
        self.0.geometry()
    }

    fn read(&self, context: &Context, at: Lba, into: ReadInto<'_>) -> Result<Done> {
        self.0.read(context, at, into)
    }

    fn write(&mut self, context: &Context, at: Lba, data: Payload<'_>) -> Result<Done> {
        self.0.write(context, at, data)
    }

    fn write_durable(&mut self, context: &Context, at: Lba, data: Payload<'_>) -> Result<Done> {
        self.1.durable_writes.fetch_add(1, Ordering::Relaxed);
        self.0.write(context, at, data)
    }

    fn flush(&mut self, context: &Context) -> Result<Done> {
        self.1.flushes.fetch_add(1, Ordering::Relaxed);
        self.0.flush(context)
    }
}

#[test]
fn a_write_with_fua_is_the_devices_durable_write_and_flushes_only_where_sectors_are_written_in_part() {
    let written = Arc::new(WriteCounts::default());
    let device = Counting(RamDevice::with_sectors(4096, 1024).unwrap(), written.clone());
    let mut client = Client::ready(&Arc::new(Export::new(Box::new(device), "disk", "")), false);
    let mut counts = |flags, offset, length: u32| {
        client.request(flags, command::WRITE, offset, length, &vec![3; length as usize]);
        assert_eq!(client.simple(), 0);
        (written.durable_writes.load(Ordering::Relaxed), written.flushes.load(Ordering::Relaxed))
    };
    assert_eq!(counts(0, 0, 8192), (0, 0));
    assert_eq!(counts(command_flag::FUA, 4096, 8192), (1, 0));
    assert_eq!(counts(command_flag::FUA, 512, 8192), (1, 1));
}

#[test]
fn an_export_for_reading_says_so_and_refuses_every_change() {
    let device = RamDevice::with_sectors(512, 2048).unwrap();
    let export = Arc::new(Export::new(Box::new(device), "disk", "a disk").read_only());
    assert_eq!(export.flags() & 0b1110_0010, 0b1000_0010, "read-only, no trims and zeroes, but DF");
    let mut client = Client::ready(&export, false);
    for what in [command::TRIM, command::WRITE_ZEROES] {
        client.request(0, what, 0, 512, b"");
        assert_eq!(client.simple(), error::EPERM);
    }
    client.request(0, command::WRITE, 0, 512, &[1; 512]);
    assert_eq!(client.simple(), error::EPERM);
    client.request(0, command::FLUSH, 0, 0, b"");
    assert_eq!(client.simple(), 0);
}

/// A device that has lost what lies behind its first 2 MiB.
struct Lossy(RamDevice);

impl BlockDevice for Lossy {
    fn geometry(&self) -> &BlockGeometry {
        self.0.geometry()
    }

    fn read(&self, context: &Context, at: Lba, into: ReadInto<'_>) -> Result<Done> {
        if at.0 >= 4096 {
            return Err(BlockError::new(ErrorKind::Unreadable, Operation::Read, at, "lost"));
        }
        self.0.read(context, at, into)
    }

    fn write(&mut self, context: &Context, at: Lba, data: Payload<'_>) -> Result<Done> {
        self.0.write(context, at, data)
    }

    fn flush(&mut self, context: &Context) -> Result<Done> {
        self.0.flush(context)
    }
}

#[test]
fn an_error_in_the_middle_of_a_read_says_where_or_hangs_up() {
    let lossy = || Arc::new(Export::new(Box::new(Lossy(RamDevice::with_sectors(512, 8192).unwrap())), "disk", ""));
    let mut client = Client::ready(&lossy(), true);
    client.request(0, command::READ, 0, 4 << 20, b"");
    for _ in 0..2 {
        let (flags, kind, content) = client.chunk();
        assert_eq!((flags, kind, content.len()), (0, chunk::OFFSET_DATA, 8 + (1 << 20)));
    }
    let (flags, kind, content) = client.chunk();
    assert_eq!((flags, kind), (chunk::DONE, chunk::ERROR_OFFSET));
    assert_eq!(content[..4], error::EIO.to_be_bytes());
    assert_eq!(content[content.len() - 8..], (2 * MIB).to_be_bytes());
    client.request(0, command::READ, 0, 512, b"");
    assert_eq!(client.chunk().1, chunk::OFFSET_DATA, "the client goes on");
    // A simple reply that has begun well has no place for an error.
    let mut client = Client::ready(&lossy(), false);
    client.request(0, command::READ, 0, 4 << 20, b"");
    assert_eq!(client.simple(), 0);
    assert!(client.was_dropped().contains("lost"));
}

//! What the protocol promises, seen from a client.

use crate::common::{Client, export};
use nandkit_nbd::Ended;
use nandkit_nbd::protocol::{chunk, command, command_flag, error, info, option, option_reply};

const MIB: u64 = 1 << 20;

#[test]
fn every_option_is_answered() {
    let export = export(MIB);
    let mut client = Client::greeted(&export);
    client.ask(option::LIST, b"");
    assert_eq!(client.option_reply(), (option_reply::SERVER, b"\0\0\0\x04disk".to_vec()));
    assert_eq!(client.option_reply().0, option_reply::ACK);
    client.ask(option::LIST, b"x");
    assert_eq!(client.option_reply().0, option_reply::ERR_INVALID);
    client.ask(option::STARTTLS, b"");
    assert_eq!(client.option_reply().0, option_reply::ERR_POLICY);
    client.ask(4711, b"whatever");
    assert_eq!(client.option_reply().0, option_reply::ERR_UNSUP);
    // An export that is not there does not end the handshake.
    client.ask(option::GO, b"\0\0\0\x05other\0\0");
    assert_eq!(client.option_reply().0, option_reply::ERR_UNKNOWN);
    client.ask(option::INFO, b"\0\0\0\0\0\x02\0\x01\0\x03");
    let mut told = Vec::new();
    loop {
        let (kind, data) = client.option_reply();
        if kind == option_reply::ACK {
            break;
        }
        assert_eq!(kind, option_reply::INFO);
        told.push(data);
    }
    let kinds: Vec<u16> = told.iter().map(|data| u16::from_be_bytes([data[0], data[1]])).collect();
    assert_eq!(kinds, [info::EXPORT, info::NAME, info::BLOCK_SIZE]);
    assert_eq!(told[0][2..10], MIB.to_be_bytes());
    assert_eq!(told[2][2..], [1u32, 4096, 32 << 20].map(u32::to_be_bytes).concat());
    client.ask(option::SET_META_CONTEXT, b"\0\0\0\0\0\0\0\x01\0\0\0\x0fbase:allocation");
    assert_eq!(client.option_reply().0, option_reply::ERR_INVALID, "before structured replies");
    client.ask(option::STRUCTURED_REPLY, b"");
    assert_eq!(client.option_reply().0, option_reply::ACK);
    client.ask(option::SET_META_CONTEXT, b"\0\0\0\0\0\0\0\x01\0\0\0\x0fbase:allocation");
    assert_eq!(client.option_reply(), (option_reply::META_CONTEXT, b"\0\0\0\x01base:allocation".to_vec()));
    assert_eq!(client.option_reply().0, option_reply::ACK);
    client.ask(option::ABORT, b"");
    assert_eq!(client.option_reply().0, option_reply::ACK);
    assert_eq!(client.ended(), Ended::Closed);
}

#[test]
fn the_old_way_to_an_export_works_with_zeroes() {
    let export = export(MIB);
    let mut client = Client::connect(&export);
    let _: [u8; 18] = client.array();
    client.send(&1u32.to_be_bytes());
    client.ask(option::EXPORT_NAME, b"");
    let answer: [u8; 134] = client.array();
    assert_eq!(answer[..8], MIB.to_be_bytes());
    client.request(0, command::READ, 0, 512, b"");
    assert_eq!(client.simple(), 0);
    assert_eq!(client.bytes(512), [0; 512]);
    client.request(0, command::DISCONNECT, 0, 0, b"");
    assert_eq!(client.ended(), Ended::Disconnected);
}

#[test]
fn any_range_of_bytes_can_be_written_and_read() {
    let export = export(4 * MIB);
    let mut model = vec![0u8; 4 << 20];
    let mut simple = Client::ready(&export, false);
    let mut structured = Client::ready(&export, true);
    let ranges = [(0, 1), (511, 2), (100, 5000), (MIB - 3, 2 * MIB + 7), (4 * MIB - 1, 1), (512, 1024), (0, 3 * MIB)];
    for (round, (offset, length)) in ranges.into_iter().enumerate() {
        let data: Vec<u8> = (0..length).map(|i| (i * 7 + round as u64) as u8).collect();
        model[offset as usize..][..length as usize].copy_from_slice(&data);
        let fua = if round % 2 == 0 { command_flag::FUA } else { 0 };
        simple.request(fua, command::WRITE, offset, length as u32, &data);
        assert_eq!(simple.simple(), 0);
    }
    for zero in [(10u64, 3000u32), (0, 512), (MIB - 1, 1 << 20)] {
        model[zero.0 as usize..][..zero.1 as usize].fill(0);
        structured.request(0, command::WRITE_ZEROES, zero.0, zero.1, b"");
        assert_eq!(structured.simple(), 0);
    }
    // All of it by a simple reply, and by chunks.
    simple.request(0, command::READ, 0, 4 << 20, b"");
    assert_eq!(simple.simple(), 0);
    assert!(simple.bytes(4 << 20) == model);
    structured.request(0, command::READ, 5, (4 << 20) - 6, b"");
    let mut found = vec![0xEE; 4 << 20];
    loop {
        let (flags, kind, content) = structured.chunk();
        assert_eq!(kind, chunk::OFFSET_DATA);
        let (offset, data) = content.split_at(8);
        let offset = u64::from_be_bytes(offset.try_into().unwrap()) as usize;
        found[offset..offset + data.len()].copy_from_slice(data);
        if flags & chunk::DONE != 0 {
            break;
        }
    }
    assert!(found[5..(4 << 20) - 1] == model[5..(4 << 20) - 1]);
}

#[test]
fn many_requests_can_wait_for_their_replies() {
    let export = export(MIB);
    let mut client = Client::ready(&export, false);
    for block in 0..200u64 {
        client.request(0, command::WRITE, block * 512, 512, &[block as u8; 512]);
    }
    (0..200).for_each(|_| assert_eq!(client.simple(), 0));
    for block in 0..200u64 {
        client.request(0, command::READ, block * 512, 512, b"");
    }
    for block in 0..200u64 {
        assert_eq!(client.simple(), 0);
        assert_eq!(client.bytes(512), [block as u8; 512]);
    }
}

#[test]
fn what_cannot_be_done_is_refused_and_the_client_goes_on() {
    let export = export(MIB);
    let mut client = Client::ready(&export, false);
    for (flags, what, offset, length, expected) in [
        (0, command::READ, MIB, 512, error::EINVAL),
        (0, command::READ, MIB - 511, 512, error::EINVAL),
        (0, command::READ, u64::MAX, 512, error::EINVAL),
        (0, command::READ, 0, 0, error::EINVAL),
        (0, command::READ, 0, (32 << 20) + 1, error::EOVERFLOW),
        (0x8000, command::READ, 0, 512, error::EINVAL),
        (0, command::TRIM, MIB - 1, 2, error::ENOSPC),
        (0, command::WRITE_ZEROES, u64::MAX - 1, 4, error::ENOSPC),
        (command_flag::FAST_ZERO | command_flag::NO_HOLE, command::WRITE_ZEROES, 0, 512, error::ENOTSUP),
        (0, command::RESIZE, 0, 512, error::EINVAL),
        (0, command::BLOCK_STATUS, 0, 512, error::EINVAL),
        (0, 4711, 0, 512, error::EINVAL),
    ] {
        client.request(flags, what, offset, length, b"");
        assert_eq!(client.simple(), expected, "{what} at {offset}, {length} bytes");
    }
    // The data of a refused write is taken, too.
    client.request(0, command::WRITE, MIB, 512, &[1; 512]);
    assert_eq!(client.simple(), error::ENOSPC);
    client.request(0, command::FLUSH, 0, 0, b"");
    assert_eq!(client.simple(), 0);
}

#[test]
fn a_structured_error_says_what_and_where() {
    let export = export(MIB);
    let mut client = Client::ready(&export, true);
    client.request(command_flag::DF, command::READ, 0, 2 << 20, b"");
    let (flags, kind, content) = client.chunk();
    assert_eq!((flags, kind), (chunk::DONE, chunk::ERROR));
    assert_eq!(content[..4], error::EINVAL.to_be_bytes());
    assert!(content.len() > 10, "words: {content:?}");
}

//! Clients that break the protocol, are slow, or go in the middle: they are dropped, others go on.

use crate::common::{Client, export};
use nandkit_nbd::Ended;
use nandkit_nbd::protocol::{OPTION_MAGIC, command, option, option_reply};

#[test]
fn those_who_break_the_protocol_are_dropped_and_others_go_on() {
    let export = export(1 << 20);
    let mut good = Client::ready(&export, false);
    let check = |client: Client, why: &str| {
        let told = client.was_dropped();
        assert!(told.contains(why), "{told}");
    };
    let mut client = Client::connect(&export);
    client.send(&0x8000_0003u32.to_be_bytes());
    check(client, "unknown flags");
    let mut client = Client::greeted(&export);
    client.send(&[0; 16]);
    check(client, "magic");
    let mut client = Client::greeted(&export);
    client.ask(option::EXPORT_NAME, b"other");
    check(client, "no export");
    let mut client = Client::ready(&export, false);
    client.send(&[0xAA; 28]);
    check(client, "magic");
    // Half a request, and then nothing.
    let mut client = Client::impatient(&export).greet().go(false);
    client.request(0, command::WRITE, 0, 4096, &[1; 100]);
    check(client, "half sent");
    let mut client = Client::impatient(&export).greet();
    client.send(&OPTION_MAGIC.to_be_bytes()[..5]);
    check(client, "half sent");
    good.request(0, command::WRITE, 512, 512, &[9; 512]);
    assert_eq!(good.simple(), 0);
    good.request(0, command::READ, 512, 512, b"");
    assert_eq!(good.simple(), 0);
    assert_eq!(good.bytes(512), [9; 512]);
}

#[test]
fn one_who_takes_no_replies_is_dropped() {
    let export = export(8 << 20);
    let client = Client::ready(&export, false);
    let mut sender = client.socket.try_clone().unwrap();
    // More than a socket holds; replies are never read.
    let mut request = nandkit_nbd::protocol::REQUEST_MAGIC.to_be_bytes().to_vec();
    request.extend_from_slice(&[0; 20]);
    request.extend_from_slice(&(4u32 << 20).to_be_bytes());
    let _ = (0..16).try_for_each(|_| std::io::Write::write_all(&mut sender, &request));
    drop(sender);
    // The test's socket pair has no write timeout of its own: closing is what a server's timeout
    // does.
    assert!(matches!(client.ended(), Ended::Dropped(_)));
}

#[test]
fn lengths_are_not_believed() {
    let export = export(1 << 20);
    let mut client = Client::greeted(&export);
    // An option of 4 GiB: nothing is kept of it, and the connection stays as long as bytes come.
    client.send(&OPTION_MAGIC.to_be_bytes());
    client.send(&option::INFO.to_be_bytes());
    client.send(&70_000u32.to_be_bytes());
    client.send(&vec![0; 70_000]);
    assert_eq!(client.option_reply().0, option_reply::ERR_TOO_BIG);
    for data in [
        &b""[..],
        b"\xff\xff\xff\xff",
        b"\0\0\0\x04disk",
        b"\0\0\0\x04disk\xff\xff",
        b"\0\0\0\x04disk\0\x01",
        b"\0\0\0\x04disk\0\0extra",
    ] {
        client.ask(option::GO, data);
        assert_eq!(client.option_reply().0, option_reply::ERR_INVALID, "{data:?}");
        client.ask(option::LIST_META_CONTEXT, data);
        assert_eq!(client.option_reply().0, option_reply::ERR_INVALID, "{data:?}");
    }
    // Options without end.
    for _ in 0..300 {
        use std::io::Write;
        let asked = [&OPTION_MAGIC.to_be_bytes()[..], &[0, 0, 0, 99, 0, 0, 0, 0]].concat();
        if client.socket.write_all(&asked).is_err() {
            break;
        }
    }
    assert_eq!(client.was_dropped(), "too many options");
}

#[test]
fn a_client_that_goes_is_no_failure() {
    let export = export(1 << 20);
    assert_eq!(Client::connect(&export).ended(), Ended::Closed);
    assert_eq!(Client::greeted(&export).ended(), Ended::Closed);
    assert_eq!(Client::ready(&export, true).ended(), Ended::Closed);
}

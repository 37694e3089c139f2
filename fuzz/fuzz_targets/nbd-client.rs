//! Whatever a client sends, handshake and requests, the server answers or drops it: no panic, no
//! write outside the device, memory within bounds.

#![no_main]

use std::io::{self, Read, Write};
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use nandkit_block::RamDevice;
use nandkit_nbd::{Export, Wire, serve_client};

const BYTES: u64 = 256 << 10;

/// The client's bytes, and then the end; replies are counted.
struct Client<'a> {
    sent: &'a [u8],
    taken: u64,
}

impl Read for Client<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.sent.read(into)
    }
}

impl Write for Client<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.taken += bytes.len() as u64;
        // A client that asks for much is gone before it has it all.
        if self.taken > 64 << 20 { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(bytes.len()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((sector, data)) = data.split_first() else { return };
    let sector = 512 << (sector % 4);
    let Ok(device) = RamDevice::with_sectors(sector, BYTES / u64::from(sector)) else { return };
    let export = Export::new(Box::new(device), "disk", "a disk in memory");
    let mut wire = Wire::new(Client { sent: data, taken: 0 }, Duration::ZERO);
    let _ = serve_client(&mut wire, &export, None, &|| false);
});

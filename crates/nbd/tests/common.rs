//! A client of a few lines, on one end of a socket pair.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use nandkit_block::{BlockGeometry, RamDevice};
use nandkit_nbd::protocol::{OPTION_MAGIC, OPTION_REPLY_MAGIC, REQUEST_MAGIC, option, option_reply};
use nandkit_nbd::{Ended, Export, Wire, serve_client};

pub struct Client {
    pub socket: UnixStream,
    pub server: Option<JoinHandle<Ended>>,
}

pub fn export(bytes: u64) -> Arc<Export> {
    let geometry = BlockGeometry { sector_size: 512, sectors: bytes / 512, preferred_size: 4096, recycling_size: 0 };
    let device = RamDevice::new(geometry).unwrap();
    Arc::new(Export::new(Box::new(device), "disk", "a disk in memory"))
}

impl Client {
    /// Connected, nothing said yet.
    pub fn connect(export: &Arc<Export>) -> Self {
        Self::connect_to(export, Duration::from_secs(20))
    }

    /// Connects to a server that waits only a short time for the rest of a message; nothing said
    /// yet.
    pub fn impatient(export: &Arc<Export>) -> Self {
        Self::connect_to(export, Duration::from_millis(300))
    }

    fn connect_to(export: &Arc<Export>, patience: Duration) -> Self {
        let (ours, theirs) = UnixStream::pair().unwrap();
        theirs.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        ours.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let export = Arc::clone(export);
        let server = std::thread::spawn(move || {
            let mut wire = Wire::new(theirs, patience);
            serve_client(&mut wire, &export, None, &|| false)
        });
        Self { socket: ours, server: Some(server) }
    }

    /// Greeted.
    pub fn greeted(export: &Arc<Export>) -> Self {
        Self::connect(export).greet()
    }

    pub fn greet(mut self) -> Self {
        let greeting: [u8; 18] = self.array();
        assert_eq!(&greeting[..16], b"NBDMAGICIHAVEOPT");
        self.send(&3u32.to_be_bytes());
        self
    }

    /// Ready for requests.
    pub fn ready(export: &Arc<Export>, structured: bool) -> Self {
        Self::greeted(export).go(structured)
    }

    pub fn go(mut self, structured: bool) -> Self {
        if structured {
            self.ask(option::STRUCTURED_REPLY, b"");
            assert_eq!(self.option_reply().0, option_reply::ACK);
        }
        self.ask(option::GO, &[0, 0, 0, 4, b'd', b'i', b's', b'k', 0, 0]);
        while self.option_reply().0 != option_reply::ACK {}
        self
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).unwrap();
    }

    pub fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.socket.read_exact(&mut bytes).unwrap();
        bytes
    }

    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.socket.read_exact(&mut bytes).unwrap();
        bytes
    }

    pub fn ask(&mut self, number: u32, data: &[u8]) {
        let length = (data.len() as u32).to_be_bytes();
        self.send(&[&OPTION_MAGIC.to_be_bytes(), &number.to_be_bytes()[..], &length, data].concat());
    }

    pub fn option_reply(&mut self) -> (u32, Vec<u8>) {
        assert_eq!(u64::from_be_bytes(self.array()), OPTION_REPLY_MAGIC);
        let _: [u8; 4] = self.array();
        let kind = u32::from_be_bytes(self.array());
        let length = u32::from_be_bytes(self.array()) as usize;
        (kind, self.bytes(length))
    }

    pub fn request(&mut self, flags: u16, command: u16, offset: u64, length: u32, data: &[u8]) {
        let mut bytes = REQUEST_MAGIC.to_be_bytes().to_vec();
        bytes.extend_from_slice(&flags.to_be_bytes());
        bytes.extend_from_slice(&command.to_be_bytes());
        bytes.extend_from_slice(&77u64.to_be_bytes());
        bytes.extend_from_slice(&offset.to_be_bytes());
        bytes.extend_from_slice(&length.to_be_bytes());
        bytes.extend_from_slice(data);
        self.send(&bytes);
    }

    /// A simple reply's error number.
    pub fn simple(&mut self) -> u32 {
        assert_eq!(self.array(), 0x6744_6698u32.to_be_bytes());
        let error = u32::from_be_bytes(self.array());
        assert_eq!(u64::from_be_bytes(self.array()), 77);
        error
    }

    /// A chunk of a structured reply: flags, kind, content.
    pub fn chunk(&mut self) -> (u16, u16, Vec<u8>) {
        assert_eq!(self.array(), 0x668e_33efu32.to_be_bytes());
        let (flags, kind) = (u16::from_be_bytes(self.array()), u16::from_be_bytes(self.array()));
        assert_eq!(u64::from_be_bytes(self.array()), 77);
        let length = u32::from_be_bytes(self.array()) as usize;
        (flags, kind, self.bytes(length))
    }

    /// How the server saw it end.
    pub fn ended(mut self) -> Ended {
        drop(self.socket);
        self.server.take().unwrap().join().unwrap()
    }

    /// How the server ended it by itself.
    pub fn was_dropped(mut self) -> String {
        let mut rest = Vec::new();
        let _ = self.socket.read_to_end(&mut rest);
        match self.server.take().unwrap().join().unwrap() {
            Ended::Dropped(why) => why,
            other => panic!("{other:?}"),
        }
    }
}

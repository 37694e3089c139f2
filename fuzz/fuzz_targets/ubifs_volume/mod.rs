//! A volume of UBIFS, and changes to its nodes.
//!
//! An input is a list of changes to a volume that is made here. Each is a node (two bytes, its
//! number), a byte in it (two bytes, whose highest bit says that the checksum stays wrong), a
//! length (one byte) and the bytes. The other nodes get a right checksum again, so that what they
//! say is looked at.

use std::sync::OnceLock;

use nandkit_ubifs::layout::{HEADER_SIZE, MAGIC, checksum};
use nandkit_ubifs::{BuildOptions, LebBytes, LebSink, Ubifs, WriteOptions, build};
use nandkit_units::{Clock, Payload};
use nandkit_vfs::source::{MemoryTree, SourceNode};
use nandkit_vfs::{Changes, FileKind, FileSystem, NewNode, Result};

const LEB_SIZE: u32 = 15_360;

struct Base {
    image: Vec<u8>,
    /// Where nodes stand, and their lengths.
    nodes: Vec<(usize, usize)>,
}

struct Sink(Vec<u8>);

impl LebSink for Sink {
    fn put(&mut self, leb: u32, bytes: &[u8]) -> Result<()> {
        let at = leb as usize * LEB_SIZE as usize;
        self.0.resize(self.0.len().max(at + LEB_SIZE as usize), 0xFF);
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }
}

/// A volume that was made, written, and not unmounted: it has a journal.
fn base() -> &'static Base {
    static BASE: OnceLock<Base> = OnceLock::new();
    BASE.get_or_init(|| {
        let mut builder = MemoryTree::builder();
        for number in 0..60_usize {
            let xattrs = if number % 7 == 0 { vec![(b"user.a".to_vec(), vec![7; number])] } else { Vec::new() };
            let node = SourceNode { xattrs, ..SourceNode::new(FileKind::Regular, 0o644) };
            let content = vec![number as u8; number * number * 3];
            builder.put(format!("d{}/file{number}", number % 5).as_bytes(), node, Some(content)).unwrap();
        }
        builder.put(b"link", SourceNode::symlink(b"d0/file0"), None).unwrap();
        let tree = MemoryTree::from_builder(builder);
        let options =
            BuildOptions { min_io_size: 512, leb_size: LEB_SIZE, leb_count_max: 60, ..BuildOptions::default() };
        let mut sink = Sink(Vec::new());
        let report = build(&tree, &options, &mut sink, &|_| {}).unwrap();
        sink.0.resize(report.leb_count.max(60) as usize * LEB_SIZE as usize, 0xFF);
        let image = written(sink.0);
        let word = |at: usize| image.get(at..at + 4).map(|word| u32::from_le_bytes(word.try_into().unwrap()));
        let places = (0..image.len()).step_by(8).filter(|at| word(*at) == Some(MAGIC));
        let sized = places.filter_map(|at| Some((at, word(at + 16)? as usize)));
        let nodes = sized.filter(|(at, length)| *length >= HEADER_SIZE && at + length <= image.len()).collect();
        Base { image, nodes }
    })
}

/// The volume with changes that only its journal knows.
fn written(image: Vec<u8>) -> Vec<u8> {
    let lebs = LebBytes { bytes: image, leb_size: LEB_SIZE };
    let mut volume = Ubifs::mount_for_writing(Box::new(lebs), Clock::default(), WriteOptions::default()).unwrap();
    let root = volume.root();
    for number in 0..20_u32 {
        let name = format!("new{number}");
        let node = volume.create(root, name.as_bytes(), &NewNode::FILE).unwrap();
        volume.write(node, u64::from(number) * 1000, Payload::Bytes(&[7; 3000])).unwrap();
        if number % 3 == 0 {
            volume.remove(root, name.as_bytes()).unwrap();
        }
    }
    volume.sync(None).unwrap();
    let lebs: Box<LebBytes> = volume.into_lebs().downcast().unwrap();
    lebs.bytes
}

/// The base with the input's changes.
pub fn changed(mut data: &[u8]) -> LebBytes {
    let base = base();
    let mut bytes = base.image.clone();
    while let Some(([n0, n1, o0, o1, length], rest)) = data.split_first_chunk::<5>() {
        let (at, size) = base.nodes[usize::from(u16::from_le_bytes([*n0, *n1])) % base.nodes.len()];
        let node = &mut bytes[at..at + size];
        let start = usize::from(u16::from_le_bytes([*o0, *o1]) & 0x7FFF) % size;
        let length = usize::from(*length).min(rest.len()).min(size - start);
        node[start..start + length].copy_from_slice(&rest[..length]);
        if o1 & 0x80 == 0 {
            let sum = checksum(node).to_le_bytes();
            node[4..8].copy_from_slice(&sum);
        }
        data = &rest[length..];
    }
    LebBytes { bytes, leb_size: LEB_SIZE }
}

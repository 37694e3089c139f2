//! Content that only very old kernels wrote: data in the two rubin codes, holes with both sizes
//! swapped, nodes marked obsolete in place. No tool makes such images any more.

use crate::common::mount;
use nandkit_jffs2::layout::{ByteOrder, Header, compression, covered, crc, node_type};
use nandkit_jffs2::testing::encode::{DirentFields, InodeFields, Piece, dirent_node, inode_node};
use nandkit_jffs2::{DamageKind, Ino, Jffs2, MountOptions, testing};
use nandkit_testkit::flash_memory::RamFlash;
use nandkit_testkit::listing;
use nandkit_units::ReadInto;
use nandkit_vfs::check::Kind as _;
use nandkit_vfs::{FileSystem, InodeNumber};

const ERASE_SIZE: u32 = 32 << 10;
const INODE: u32 = 2;

/// One block that holds `/file`, inode 2.
struct Image {
    order: ByteOrder,
    bytes: Vec<u8>,
}

impl Image {
    fn new(order: ByteOrder) -> Self {
        let mut image = Self { order, bytes: Header::new(order, node_type::CLEANMARKER, 12).encode(order).to_vec() };
        let fields = DirentFields { parent: Ino(1), version: 1, inode: Ino(INODE), made: 1, kind: 8 };
        image.node(|order, out| dirent_node(order, &fields, b"file", out));
        image
    }

    fn node(&mut self, write: impl FnOnce(ByteOrder, &mut Vec<u8>)) -> usize {
        let at = self.bytes.len();
        write(self.order, &mut self.bytes);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0xFF);
        at
    }

    /// Appends a piece of the file; returns its address.
    fn piece(&mut self, version: u32, file_size: u32, piece: &Piece<'_>) -> usize {
        let fields = InodeFields { inode: Ino(INODE), version, mode: 0o100_644, file_size, ..InodeFields::default() };
        self.node(|order, out| inode_node(order, &fields, piece, out))
    }

    fn mount(&self, nand: bool) -> Jffs2<RamFlash> {
        let mut bytes = self.bytes.clone();
        bytes.resize(2 * ERASE_SIZE as usize, 0xFF);
        let flash = if nand { RamFlash::nand(bytes, ERASE_SIZE, 512, 16) } else { RamFlash::nor(bytes, ERASE_SIZE) };
        mount(flash, MountOptions::default()).unwrap()
    }

    /// The content of the file. Asserts that a check finds nothing.
    fn content(&self) -> Vec<u8> {
        let volume = self.mount(false);
        assert_eq!(volume.check(false).unwrap().findings, []);
        content(&volume)
    }
}

fn content(volume: &Jffs2<RamFlash>) -> Vec<u8> {
    let mut bytes = vec![0xAA; 1 << 16];
    let count = volume.read(InodeNumber(INODE.into()), 0, ReadInto::Bytes(&mut bytes)).unwrap();
    bytes.truncate(count);
    bytes
}

/// Encodes with an arithmetic code with 16-bit registers. Bit `place` of each byte, the least
/// significant first, is expected to be one with probability `ones[place]`/`divider`.
fn rubin(divider: u32, ones: [u32; 8], plain: &[u8]) -> Vec<u8> {
    const HALF: u32 = 1 << 15;
    let (mut low, mut width, mut bits) = (0_u32, 2 * HALF, Vec::new());
    for byte in plain {
        for (place, ones) in ones.iter().enumerate() {
            while low >= HALF || low + width <= HALF {
                bits.push(low / HALF);
                (low, width) = (low % HALF * 2, width * 2);
            }
            let zeroes = ((divider - ones) * width / divider).clamp(1, width - 1);
            (low, width) = if byte >> place & 1 == 1 { (low + zeroes, width - zeroes) } else { (low, zeroes) };
        }
    }
    bits.extend((0..16).rev().map(|place| low >> place & 1));
    bits.chunks(8).map(|bits| bits.iter().zip(0..).map(|(bit, place)| (*bit << (7 - place)) as u8).sum()).collect()
}

/// The counts of ones, then the code: the format that Linux decodes as number 3.
fn dynamic(plain: &[u8]) -> Vec<u8> {
    let ones = [0, 1, 2, 3, 4, 5, 6, 7].map(|place| {
        let set = plain.iter().filter(|byte| **byte >> place & 1 == 1).count() as u32;
        (set * 256 / plain.len() as u32).clamp(1, 255)
    });
    let shares: Vec<u8> = ones.iter().map(|share| *share as u8).collect();
    [shares, rubin(256, ones, plain)].concat()
}

/// Fixed counts (fs/jffs2/compr_rubin.c): the format that Linux decodes as number 5.
fn fixed(plain: &[u8]) -> Vec<u8> {
    rubin(1043, [277, 249, 290, 267, 229, 341, 212, 241], plain)
}

#[test]
fn files_in_both_rubin_codes_are_read() {
    let text = "what stood in the pages of a handheld of the year 2001; ".repeat(150).into_bytes();
    for order in ByteOrder::ALL {
        let mut image = Image::new(order);
        for (number, page) in text.chunks(4096).enumerate() {
            // Both kinds in one file; the last piece is stored as the kernel stores data that do
            // not shrink.
            let (method, packed) = match number {
                0 => (compression::RUBIN_MIPS, dynamic(page)),
                1 => (compression::DYNAMIC_RUBIN, fixed(page)),
                _ => (compression::NONE, page.to_vec()),
            };
            assert!(number > 1 || packed.len() < page.len() || method == compression::DYNAMIC_RUBIN);
            let piece =
                Piece { offset: number as u32 * 4096, size: page.len() as u32, compression: method, bytes: &packed };
            image.piece(number as u32 + 1, text.len() as u32, &piece);
        }
        assert_eq!(image.content(), text, "{order:?}");
        // A changed bit of the code under a correct checksum is another text and not damage:
        // nothing reveals it.
        let packed = &dynamic(&text[..4096])[..20];
        let mut cut = Image::new(order);
        cut.piece(1, 4096, &Piece { offset: 0, size: 4096, compression: compression::RUBIN_MIPS, bytes: packed });
        let report = cut.mount(false).check(false).unwrap();
        let kinds: Vec<_> = report.findings.iter().map(|finding| (finding.kind, finding.paths.clone())).collect();
        assert_eq!(
            kinds,
            [(DamageKind::Data.name(), vec![b"file".to_vec()])],
            "a code that ends too early: {report:?}"
        );
    }
}

/// Swaps the sizes of a hole's node: 4 bytes each, before the compression and the checksums.
fn swap_sizes(image: &mut Image, at: usize) {
    let node = &mut image.bytes[at..at + 68];
    let (compressed, data) = (node[48..52].to_vec(), node[52..56].to_vec());
    node[48..52].copy_from_slice(&data);
    node[52..56].copy_from_slice(&compressed);
    let sum = crc(&node[..covered::INODE]);
    node[64..68].copy_from_slice(&image.order.bytes32(sum));
}

#[test]
fn a_hole_with_its_sizes_swapped_is_a_hole() {
    for order in ByteOrder::ALL {
        let expected = [&b"before"[..], &[0; 4090], b"behind"].concat();
        let build = |swapped: bool| {
            let mut image = Image::new(order);
            image.piece(1, 6, &Piece { offset: 0, size: 6, compression: compression::NONE, bytes: b"before" });
            let hole = Piece { offset: 6, size: 4090, compression: compression::ZERO, bytes: &[] };
            let at = image.piece(2, 4096, &hole);
            if swapped {
                swap_sizes(&mut image, at);
            }
            image.piece(3, 4102, &Piece { offset: 4096, size: 6, compression: compression::NONE, bytes: b"behind" });
            image
        };
        let (plain, swapped) = (build(false), build(true));
        assert_ne!(plain.bytes, swapped.bytes);
        assert_eq!(plain.content(), expected);
        assert_eq!(swapped.content(), expected, "{order:?}");
        let repaired = swapped.mount(false);
        let repair = repaired.repair(false, &mut repaired.flash().clone()).unwrap();
        assert_eq!((repair.dropped.as_slice(), repair.kept), (&[][..], 4));
        // With the bytes after it that its size promises, as Linux 6.1 accepts it.
        let mut long = Image::new(order);
        let zeroes = [0; 100];
        let at = long.piece(1, 100, &Piece { offset: 0, size: 0, compression: compression::ZERO, bytes: &zeroes });
        assert_eq!(order.u32(long.bytes[at + 48..at + 52].try_into().unwrap()), 100);
        assert_eq!(long.content(), zeroes);
    }
}

#[test]
fn nodes_marked_obsolete_in_place_do_not_count_and_are_no_damage_on_nor() {
    for order in ByteOrder::ALL {
        let mut image = Image::new(order);
        let piece =
            |bytes: &'static [u8]| Piece { offset: 0, size: bytes.len() as u32, compression: compression::NONE, bytes };
        let first = image.piece(1, 5, &piece(b"first"));
        let second = image.piece(2, 6, &piece(b"second"));
        let entry = DirentFields { parent: Ino(1), version: 2, inode: Ino(INODE), made: 1, kind: 8 };
        let name = image.node(|order, out| dirent_node(order, &entry, b"old", out));
        let accurate = if order == ByteOrder::Little { 3 } else { 2 };
        let mark = |image: &mut Image, at: usize| image.bytes[at + accurate] &= !0x20;
        assert_eq!(image.content(), b"second");
        // Marked as a kernel marks data that were overwritten and a name that was removed.
        mark(&mut image, first);
        mark(&mut image, name);
        assert_eq!(image.content(), b"second");
        let volume = image.mount(false);
        assert_eq!(listing::of_volume(&volume).keys().collect::<Vec<_>>(), ["/file"]);
        assert_eq!(testing::obsolete_bytes(&volume).unwrap(), 68 + 5 + 40 + 3);
        assert_eq!(volume.versions(Ino(INODE)).unwrap().iter().map(|found| found.version).collect::<Vec<_>>(), [2]);
        assert_eq!(volume.catalogue().recount(), Ok(()));
        // On NAND, no kernel can have marked anything.
        let report = image.mount(true).check(false).unwrap();
        let found: Vec<_> = report.findings.iter().map(|finding| (finding.offset, finding.kind)).collect();
        assert_eq!(found, [first, name].map(|at| (Some(at as u64), DamageKind::Header.name())));
        // A marked node is gone even if no newer node replaces it; the mark alone counts.
        mark(&mut image, second);
        let volume = image.mount(false);
        let told = volume.check(false).unwrap().findings;
        assert_eq!(told.len(), 1, "{told:?}");
        assert_eq!(told[0].kind, DamageKind::Reference.name());
    }
}

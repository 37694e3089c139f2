//! Records that vanish from a chip's image are reported, and the counts that reveal it agree with
//! the records after every crash.

use std::io;
use std::sync::{Arc, Mutex};

use nandkit_block::{Access, BlockDevice, BlockGeometry, JournalledFile, Medium, RamDevice};
use nandkit_flash::{Flash, Interrupt, PageProgram, TornErase};
use nandkit_nand_sim::image::layout::{BLOCK_BYTES, HEADER_BYTES, Layout};
use nandkit_nand_sim::{ChipImage, ChipSpec, DescribedStore, ImageError, PageOrder, ShadowStore, Store};
use nandkit_units::random::Random;
use nandkit_units::{BlockIndex, Context, Lba, PageAddress, Payload, ReadInto};

const BLOCKS: u32 = 20;
const PAGES: u32 = 80;

fn spec() -> ChipSpec {
    let mut spec = ChipSpec::default();
    spec.geometry.blocks = BLOCKS;
    spec.geometry.pages_per_block = PAGES;
    spec.geometry.page_size = 512;
    spec.geometry.write_unit = 512;
    spec.geometry.oob_size = 16;
    spec.rules.order = PageOrder::Any;
    spec.rules.partial_programs = 1;
    spec
}

/// Programs, erases and cut erases in some blocks; others are never touched.
fn act<S: Store, D: BlockDevice>(image: &mut ChipImage<S, D>, random: &mut Random, steps: u32) {
    for _ in 0..steps {
        let block = BlockIndex(random.below(u64::from(BLOCKS) / 2) as u32 * 2);
        let at = block.page(random.below(u64::from(PAGES)) as u32);
        let context = Context::default();
        // Refusals of a programmed page, and of a block that has become bad, are part of the test.
        let _ = match random.below(40) {
            0 => image.erase(&context, block).map(drop),
            1 => image.interrupt_erase(&context, block, TornErase::Half),
            2 => image.mark_bad(&context, BlockIndex(BLOCKS - 2)).map(drop),
            _ => {
                image.program(&context, at, PageProgram::new(Payload::Bytes(&[block.0 as u8; 512]), &[7; 16])).map(drop)
            }
        };
    }
}

fn programmed<S: Store, D: BlockDevice>(image: &ChipImage<S, D>) -> Vec<PageAddress> {
    let pages = (0..BLOCKS).flat_map(|block| (0..PAGES).map(move |page| PageAddress::new(block, page)));
    pages.filter(|at| image.chip().is_programmed(*at)).collect()
}

fn bytes_of(device: &RamDevice) -> Vec<u8> {
    let mut bytes = vec![0; device.geometry().capacity() as usize];
    device.read(&Context::default(), Lba(0), ReadInto::Bytes(&mut bytes)).unwrap();
    bytes
}

/// Opens an image after `damage`.
fn open<S: Store>(bytes: &[u8], damage: impl FnOnce(&mut [u8])) -> Result<ChipImage<S, RamDevice>, ImageError> {
    let mut bytes = bytes.to_vec();
    damage(&mut bytes);
    let mut device = RamDevice::with_sectors(512, bytes.len() as u64 / 512).unwrap();
    device.write(&Context::default(), Lba(0), Payload::Bytes(&bytes)).unwrap();
    ChipImage::open(device, &Context::default())
}

/// An image after many rounds, as bytes, and the pages that are programmed.
fn worn<S: Store>() -> (Vec<u8>, Vec<PageAddress>, Layout) {
    let spec = spec();
    let bytes = ChipImage::<S, RamDevice>::required_bytes(&spec).unwrap();
    let device = RamDevice::with_sectors(512, bytes.div_ceil(512)).unwrap();
    let mut image = ChipImage::<S, _>::create(device, &spec, 7, &Context::default()).unwrap();
    let mut random = Random::new(3, "worn");
    for _ in 0..6 {
        act(&mut image, &mut random, 150);
        image.sync(&Context::default()).unwrap();
        act(&mut image, &mut random, 1);
        image.sync(&Context::default()).unwrap();
        image = ChipImage::open(image.into_device(), &Context::default()).unwrap();
    }
    let programmed = programmed(&image);
    (bytes_of(&image.into_device()), programmed, Layout::new(&spec.geometry.build(), S::KIND))
}

fn every_vanished_record_is_told<S: Store + std::fmt::Debug>() {
    let (good, pages, layout) = worn::<S>();
    assert!(open::<S>(&good, |_| ()).is_ok());
    assert!(pages.len() > 100, "{}", pages.len());
    let (mut refused, page_bytes) = (0, layout.page_bytes());
    for at in pages.iter().step_by(7) {
        let record = layout.page_at(at.block.0, at.page) as usize;
        let zeroed = |length: usize| move |bytes: &mut [u8]| bytes[record..record + length].fill(0);
        let flipped = |byte: usize| move |bytes: &mut [u8]| bytes[record + byte] ^= 0x04;
        let damaged = [
            ("zeroes over the record", open::<S>(&good, zeroed(page_bytes))),
            ("zeroes over its head", open::<S>(&good, zeroed(60))),
            ("the kind of an empty record", open::<S>(&good, zeroed(1))),
            ("another generation", open::<S>(&good, flipped(4))),
            ("another chip", open::<S>(&good, flipped(56))),
        ];
        for (what, opened) in damaged {
            let error = opened.expect_err(&format!("{what} at {at}"));
            let expected = format!("damaged chip image: the number of page records in block {} (", at.block.0);
            assert!(error.to_string().starts_with(&expected), "{what} at {at}: {error}");
            // The reported place is that of the first page without a record, which may be one that
            // never had a record.
            let place = error.damaged_at().unwrap();
            assert!(place >= layout.page_at(at.block.0, 0) && place <= record as u64, "{what} at {at}: {place}");
            refused += 1;
        }
    }
    assert!(refused > 70, "{refused}");
    for block in (0..BLOCKS).filter(|block| pages.iter().any(|at| at.block.0 == *block)) {
        let record = layout.block_at(block) as usize;
        let zeroed = open::<S>(&good, |bytes| bytes[record..record + BLOCK_BYTES].fill(0));
        let other = open::<S>(&good, |bytes| bytes[record + 25] ^= 0x10);
        for error in [zeroed, other].map(|opened| opened.expect_err("a block is lost")) {
            let expected = format!("the number of blocks with a record (block {block} has lost its record) is ");
            assert!(error.to_string().contains(&expected), "{error}");
            assert_eq!(error.damaged_at(), Some(record as u64));
        }
        let generation = open::<S>(&good, |bytes| bytes[record] ^= 1).expect_err("the record's checksum");
        assert!(generation.to_string().contains(&format!("the checksum of block {block} ")), "{generation}");
        // A hole over the pages of the whole block, and over everything after it.
        let (first, behind) = (layout.page_at(block, 0) as usize, layout.page_at(block + 1, 0) as usize);
        assert!(open::<S>(&good, |bytes| bytes[first..behind].fill(0)).is_err(), "block {block}");
        assert!(open::<S>(&good, |bytes| bytes[first..].fill(0)).is_err(), "from block {block} on");
    }
    // A range that was never written may be a hole: nothing is lost by it.
    let behind = layout.page_at(BLOCKS - 1, 0) as usize;
    assert!(open::<S>(&good, |bytes| bytes[behind..].fill(0)).is_ok());
    let all = open::<S>(&good, |bytes| bytes[HEADER_BYTES..layout.block_at(BLOCKS) as usize].fill(0));
    assert!(all.expect_err("no block is left").to_string().contains("the number of blocks with a record is 0"));
    for (from, to) in [(0, HEADER_BYTES), (0, 64), (8, 512), (48, 64), (52, 56), (64, 512)] {
        assert!(open::<S>(&good, |bytes| bytes[from..to].fill(0)).is_err(), "zeroes from {from} to {to}");
    }
}

#[test]
fn records_that_vanish_are_told_with_block_and_place() {
    every_vanished_record_is_told::<DescribedStore>();
    every_vanished_record_is_told::<ShadowStore>();
}

#[derive(Clone, Debug)]
enum Change {
    Write(u64, Vec<u8>),
    SetLen(u64),
    Sync,
}

/// A file in memory that records its changes, so that crashes can be simulated.
#[derive(Clone, Debug, Default)]
struct Recorder {
    bytes: Vec<u8>,
    changes: Arc<Mutex<Vec<Change>>>,
}

fn apply(bytes: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Write(offset, data) => {
            let end = *offset as usize + data.len();
            bytes.resize(bytes.len().max(end), 0);
            bytes[*offset as usize..end].copy_from_slice(data);
        }
        Change::SetLen(length) => bytes.resize(*length as usize, 0),
        Change::Sync => {}
    }
}

impl Recorder {
    fn note(&mut self, change: Change) -> io::Result<()> {
        apply(&mut self.bytes, &change);
        self.changes.lock().unwrap().push(change);
        Ok(())
    }
}

impl Medium for Recorder {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let held = self.bytes.get(offset as usize..offset as usize + into.len());
        into.copy_from_slice(held.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.note(Change::Write(offset, bytes.to_vec()))
    }
    fn set_len(&mut self, length: u64) -> io::Result<()> {
        self.note(Change::SetLen(length))
    }
    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes.len() as u64)
    }
    fn sync(&mut self) -> io::Result<()> {
        self.note(Change::Sync)
    }
}

#[test]
fn after_a_crash_at_any_write_the_counts_fit_the_records() {
    type Chip = ChipImage<ShadowStore, JournalledFile<Recorder>>;
    let seen = |image: &Chip| (programmed(image), image.chip().erase_counts().collect::<Vec<_>>());
    let spec = spec();
    let sectors = ChipImage::<ShadowStore, RamDevice>::required_bytes(&spec).unwrap().div_ceil(512);
    let geometry = BlockGeometry { sector_size: 512, sectors, preferred_size: 512, recycling_size: 0 };
    for buffer in [usize::MAX, 4000] {
        let recorder = Recorder::default();
        let changes = recorder.changes.clone();
        let file = JournalledFile::create_on(recorder, geometry).unwrap().with_buffer_limit(buffer);
        let mut image = Chip::create(file, &spec, 7, &Context::default()).unwrap();
        let mut random = Random::new(5, "crash");
        let mut flushed = vec![(changes.lock().unwrap().len(), seen(&image))];
        for _ in 0..8 {
            act(&mut image, &mut random, 25);
            image.sync(&Context::default()).unwrap();
            flushed.push((changes.lock().unwrap().len(), seen(&image)));
        }
        let changes = changes.lock().unwrap().clone();
        let mut met = vec![0; flushed.len()];
        for count in flushed[0].0..=changes.len() {
            let synced = changes[..count].iter().rposition(|change| matches!(change, Change::Sync)).unwrap();
            // All that was written before the crash, or only a part of what was not synced.
            for kept in [1.0, 0.5, 0.0] {
                let mut bytes = Vec::new();
                for (index, change) in changes[..count].iter().enumerate() {
                    if index <= synced || random.chance(kept) {
                        apply(&mut bytes, change);
                    }
                }
                let medium = Recorder { bytes, ..Recorder::default() };
                let file = JournalledFile::open_on(medium, Access::ReadWrite).unwrap();
                let image = Chip::open(file, &Context::default());
                let found = seen(&image.unwrap_or_else(|error| panic!("crash behind change {count}: {error}")));
                let last = flushed.iter().rposition(|(end, _)| *end <= count).unwrap();
                let state = (last..flushed.len().min(last + 2)).find(|state| flushed[*state].1 == found);
                met[state.unwrap_or_else(|| panic!("crash behind change {count}: the state of no flush"))] += 1;
            }
        }
        assert!(met.iter().all(|met| *met > 0), "{met:?}");
    }
}

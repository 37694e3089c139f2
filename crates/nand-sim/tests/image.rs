//! A chip stored on a block device: after opening it again, what was synced is there, and anything
//! else is an error with a reason.

use nandkit_block::{BlockDevice, JournalledFile, RamDevice};
use nandkit_flash::{ErrorKind, Flash, FlashError, Interrupt, PageProgram, PageRead, TornErase, TornPage};
use nandkit_nand_sim::{
    AddressStore, ChipImage, ChipSpec, ContentStore, CopybackReach, DescribedStore, FailureScript, ImageError,
    PageOrder, ShadowStore, Store,
};
use nandkit_testkit::flash_suite::{self, FlashOptions};
use nandkit_units::random::Random;
use nandkit_units::{
    BlockIndex, Content, Context, Described, Description, Generator, Lba, Nanos, PageAddress, Payload, ReadInto,
};

fn spec() -> ChipSpec {
    let mut spec = ChipSpec::default();
    spec.geometry.blocks = 12;
    spec.geometry.pages_per_block = 16;
    spec.geometry.write_unit = 512;
    spec.rules.order = PageOrder::Any;
    spec.rules.partial_programs = 3;
    spec.rules.copyback = CopybackReach::Device;
    spec.bad_blocks.enabled = true;
    spec.bad_blocks.factory_max = 2;
    spec.bit_errors.enabled = true;
    spec.bit_errors.base = 5e-5;
    spec
}

fn device<S: Store>(spec: &ChipSpec, sector_size: u32) -> RamDevice {
    let bytes = ChipImage::<S, RamDevice>::required_bytes(spec).unwrap();
    RamDevice::with_sectors(sector_size, bytes.div_ceil(u64::from(sector_size))).unwrap()
}

fn create<S: Store>(spec: &ChipSpec, sector_size: u32) -> ChipImage<S, RamDevice> {
    ChipImage::create(device::<S>(spec, sector_size), spec, 7, &Context::default()).unwrap()
}

fn reopen<S: Store>(image: ChipImage<S, RamDevice>) -> ChipImage<S, RamDevice> {
    ChipImage::open(image.into_device(), &Context::default()).unwrap()
}

/// All that can be observed of a page: data as a description or a checksum, and the OOB.
type PageReading = (Result<u16, ErrorKind>, Option<Described>, u32, Vec<u8>);

fn look<F: Flash>(flash: &F, at: PageAddress) -> PageReading {
    let (mut content, mut oob) = (Content::new(), vec![0; 64]);
    let read = PageRead { column: 0, data: ReadInto::Content { content: &mut content, length: 2048 }, oob: &mut oob };
    let result = flash.read(&Context::at(Nanos(1 << 40)), at, read);
    let described = content.described();
    let result = result.map(|done| done.corrected_bits).map_err(|error| error.kind);
    (result, described, crc32fast::hash(content.to_bytes()), oob)
}

fn all<S: Store>(image: &ChipImage<S, RamDevice>) -> Vec<PageReading> {
    // Observed through a clone, so that observing neither counts reads nor draws from the garbage
    // generator.
    let chip = image.chip().clone();
    (0..12 * 16).map(|page| look(&chip, PageAddress::new(page / 16, page % 16))).collect()
}

fn act<S: Store>(image: &mut ChipImage<S, RamDevice>, random: &mut Random) -> Result<(), FlashError> {
    let block = random.below(12) as u32;
    let at = PageAddress::new(block, random.below(16) as u32);
    let context = Context::at(Nanos(random.below(1 << 50)));
    let mut bytes = vec![0; 512 * random.between(1, 4) as usize];
    random.fill(&mut bytes);
    let oob = [bytes[0]; 40];
    let description = Description {
        record: random.next_u64() >> random.below(60),
        version: 3,
        offset: 512,
        generator: Generator::Record,
    };
    let described = Payload::Described(Described { description, length: bytes.len() as u32 });
    let payload = if random.chance(0.5) { Payload::Bytes(&bytes) } else { described };
    let program =
        PageProgram { column: 2048 - bytes.len() as u32, data: payload, oob: &oob[..random.below(41) as usize] };
    match random.below(20) {
        0 => image.erase(&context, BlockIndex(block)).map(drop),
        1 => image.interrupt_erase(&context, BlockIndex(block), TornErase::Half),
        2 => image.interrupt_erase(&context, BlockIndex(block), TornErase::Weak),
        3 => image.interrupt_program(&context, at, program, TornPage::Garbage),
        4 => image.interrupt_program(&context, at, program, TornPage::Prefix),
        5..8 => {
            let from = PageAddress::new(random.below(12) as u32, random.below(16) as u32);
            image.copyback().map_or(Ok(()), |copyback| copyback.copy(&context, from, at, None).map(drop))
        }
        8 => image.read(&context, at, PageRead::oob(&mut [0; 4])).map(drop),
        9 if random.chance(0.05) => image.mark_bad(&context, BlockIndex(block)).map(drop),
        _ => image.program(&context, at, program).map(drop),
    }
}

fn survives<S: Store>(sector_size: u32) {
    for seed in 0..6 {
        let mut image = create::<S>(&spec(), sector_size);
        image.script_failures(FailureScript { programs: [60].into(), erases: [9].into(), ..FailureScript::default() });
        let mut random = Random::new(seed, "image");
        for round in 0..12 {
            (0..25).for_each(|_| drop(act(&mut image, &mut random)));
            image.sync(&Context::default()).unwrap();
            assert_eq!(image.dirty_pages(), 0);
            let synced = all(&image);
            let (counts, instant) = (image.chip().erase_counts().collect::<Vec<_>>(), image.last_instant());
            let bad: Vec<bool> = (0..12).map(|block| image.is_bad(BlockIndex(block))).collect();
            (0..10).for_each(|_| drop(act(&mut image, &mut random)));
            // The RAM device keeps what was synced, as nothing was written since.
            image = reopen(image);
            let found = all(&image);
            for (page, (found, synced)) in found.iter().zip(&synced).enumerate() {
                assert_eq!(found, synced, "{:?} seed {seed} round {round} page {page}", S::KIND);
            }
            assert_eq!(image.chip().erase_counts().collect::<Vec<_>>(), counts);
            assert_eq!(image.last_instant(), instant);
            assert_eq!((0..12).map(|block| image.is_bad(BlockIndex(block))).collect::<Vec<_>>(), bad);
        }
    }
}

#[test]
fn what_was_synced_is_there_again() {
    survives::<ContentStore>(512);
    survives::<DescribedStore>(4096);
    survives::<ShadowStore>(512);
    survives::<AddressStore>(512);
}

#[test]
fn an_image_is_a_flash_device() {
    let options = FlashOptions { rounds: 300, order: flash_suite::PageOrder::Ascending, ..FlashOptions::default() };
    let make = |geometry: &nandkit_units::FlashGeometry| {
        let mut spec = ChipSpec::default();
        spec.geometry.page_size = geometry.page_size;
        spec.geometry.oob_size = geometry.oob_size;
        spec.geometry.write_unit = geometry.write_unit;
        spec.geometry.pages_per_block = geometry.pages_per_block;
        spec.geometry.blocks = geometry.blocks;
        spec.geometry.planes = geometry.planes;
        spec.geometry.dies = geometry.dies;
        spec.geometry.channels = geometry.channels;
        spec.rules.order = PageOrder::Ascending;
        create::<ContentStore>(&spec, 512)
    };
    flash_suite::run(|geometry| Box::new(make(geometry)) as Box<dyn Flash>, &options).unwrap();
    flash_suite::run_interrupts(|geometry| Box::new(make(geometry)) as Box<dyn Interrupt>, &options).unwrap();
}

/// A device that counts the bytes written to it.
struct Counting(RamDevice, u64);

impl BlockDevice for Counting {
    fn geometry(&self) -> &nandkit_block::BlockGeometry {
        self.0.geometry()
    }
    fn read(&self, context: &Context, at: Lba, into: ReadInto<'_>) -> nandkit_block::Result<nandkit_units::Done> {
        self.0.read(context, at, into)
    }
    fn write(&mut self, context: &Context, at: Lba, data: Payload<'_>) -> nandkit_block::Result<nandkit_units::Done> {
        self.1 += data.len() as u64;
        self.0.write(context, at, data)
    }
    fn flush(&mut self, context: &Context) -> nandkit_block::Result<nandkit_units::Done> {
        self.0.flush(context)
    }
}

#[test]
fn a_sync_writes_what_changed() {
    let spec = ChipSpec::default();
    let counting = Counting(device::<ContentStore>(&spec, 512), 0);
    let mut image = ChipImage::<ContentStore, _>::create(counting, &spec, 1, &Context::default()).unwrap();
    for block in 0..200 {
        for page in 0..64 {
            let program = PageProgram::new(Payload::Bytes(&[5; 2048]), &[6; 64]);
            image.program(&Context::default(), PageAddress::new(block, page), program).unwrap();
        }
    }
    image.sync(&Context::default()).unwrap();
    let program = PageProgram::new(Payload::Bytes(&[5; 2048]), &[6; 64]);
    image.program(&Context::default(), PageAddress::new(201, 0), program).unwrap();
    image.erase(&Context::default(), BlockIndex(3)).unwrap();
    let image = {
        let counting = image.into_device();
        assert!(counting.1 > 200 * 64 * 2112);
        let mut image = ChipImage::<ContentStore, _>::open(Counting(counting.0, 0), &Context::default()).unwrap();
        image.program(&Context::default(), PageAddress::new(201, 0), program).unwrap();
        image.erase(&Context::default(), BlockIndex(3)).unwrap();
        image.sync(&Context::default()).unwrap();
        image
    };
    let written = image.into_device().1;
    assert!(written < 65_536 + 8 * 512, "header, two block records and a page, but {written} bytes were written");
}

fn opened(mut device: RamDevice, offset: u64, bytes: &[u8]) -> ImageError {
    let mut sector = [0; 512];
    device.read(&Context::default(), Lba(offset / 512), ReadInto::Bytes(&mut sector)).unwrap();
    let start = (offset % 512) as usize;
    sector[start..start + bytes.len()].copy_from_slice(bytes);
    device.write(&Context::default(), Lba(offset / 512), Payload::Bytes(&sector)).unwrap();
    ChipImage::<ContentStore, _>::open(device, &Context::default()).expect_err("a damaged image must not open")
}

#[test]
fn damaged_and_foreign_images_are_refused_with_found_and_expected() {
    let image = || {
        let mut image = create::<ContentStore>(&ChipSpec::default(), 512);
        let program = PageProgram::new(Payload::Bytes(&[5; 2048]), &[6; 64]);
        image.program(&Context::default(), PageAddress::new(0, 0), program).unwrap();
        image.sync(&Context::default()).unwrap();
        image.into_device()
    };
    let error = opened(image(), 0, b"KERNEL");
    assert!(matches!(error, ImageError::NoImage { .. }), "{error}");
    let error = opened(image(), 8, &[9]);
    assert_eq!(
        error.to_string(),
        "saved chip of format version 9, expected version 2: open it with the nandkit that wrote it, or make it anew"
    );
    let error = opened(image(), 120, b"#");
    assert!(error.to_string().starts_with("damaged chip image: the header's checksum is 0x"), "{error}");
    let error = opened(image(), 18, &[255]);
    assert!(error.to_string().contains("the spec's length"), "{error}");
    let error = opened(image(), 65_536, &[77]);
    assert!(error.to_string().contains("the checksum of block 0"), "{error}");
    let error = opened(image(), 65_536 + 256 * 32 + 300, &[77]);
    assert!(error.to_string().contains("the checksum of block 0 page 0"), "{error}");
    let error = ChipImage::<ShadowStore, _>::open(image(), &Context::default()).err().unwrap();
    assert_eq!(error.to_string(), "the saved chip has a store of kind Content, expected Shadow");
    let empty = RamDevice::with_sectors(512, 1000).unwrap();
    let error = ChipImage::<ShadowStore, _>::open(empty, &Context::default()).err().unwrap();
    assert!(matches!(error, ImageError::NoImage { found: [0, 0, 0, 0, 0, 0, 0, 0] }), "{error}");
    let small = RamDevice::with_sectors(512, 1000).unwrap();
    let error =
        ChipImage::<ContentStore, _>::create(small, &ChipSpec::default(), 1, &Context::default()).err().unwrap();
    assert!(matches!(error, ImageError::TooSmall { found: 512_000, .. }), "{error}");
}

#[test]
fn a_new_chip_sees_nothing_of_an_old_one() {
    let mut image = create::<ContentStore>(&spec(), 512);
    let mut random = Random::new(1, "old");
    for _ in 0..3 {
        (0..60).for_each(|_| drop(act(&mut image, &mut random)));
        image.sync(&Context::default()).unwrap();
        let mut other = spec();
        other.bit_errors.enabled = false;
        other.bad_blocks.enabled = false;
        image = ChipImage::create(image.into_device(), &other, 7, &Context::default()).unwrap();
        // The last page of each block makes the store check the pages before it.
        for block in 0..12 {
            let program = PageProgram::new(Payload::Bytes(&[5; 2048]), &[]);
            image.program(&Context::default(), PageAddress::new(block, 15), program).unwrap();
        }
        image.sync(&Context::default()).unwrap();
        image = reopen(image);
        let erased = (Ok(0), None, crc32fast::hash(&[0xFF; 2048]), vec![0xFF; 64]);
        for page in 0..12 * 16 {
            let seen = look(image.chip(), PageAddress::new(page / 16, page % 16));
            assert_eq!(seen == erased, page % 16 != 15, "page {page}");
        }
    }
}

#[test]
fn a_chip_lives_in_a_journalled_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chip");
    let sectors = ChipImage::<ShadowStore, RamDevice>::required_bytes(&spec()).unwrap().div_ceil(4096);
    let geometry = nandkit_block::BlockGeometry { sector_size: 4096, sectors, preferred_size: 4096, recycling_size: 0 };
    let file = JournalledFile::create(&path, geometry).unwrap();
    let mut image = ChipImage::<ShadowStore, _>::create(file, &spec(), 7, &Context::default()).unwrap();
    // Block 0 is always good.
    let at = PageAddress::new(0, 3);
    let description = Description { record: 77, version: 5, offset: 0, generator: Generator::Record };
    let described = Described { description, length: 2048 };
    let program = PageProgram::new(Payload::Described(described), &[4; 16]);
    image.program(&Context::default(), at, program).unwrap();
    image.sync(&Context::default()).unwrap();
    image.erase(&Context::default(), BlockIndex(0)).unwrap();
    drop(image);
    let file = JournalledFile::open(&path, nandkit_block::Access::ReadWrite).unwrap();
    let image = ChipImage::<ShadowStore, _>::open(file, &Context::default()).unwrap();
    let mut content = Content::new();
    let into = ReadInto::Content { content: &mut content, length: 2048 };
    image.read(&Context::default(), at, PageRead { column: 0, data: into, oob: &mut [] }).unwrap();
    assert_eq!(content.described(), Some(described), "what was not synced did not happen");
}

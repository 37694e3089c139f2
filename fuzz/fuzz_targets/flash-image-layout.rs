//! Dumps of any content and length under any layout, found or named: devices, or an error with a
//! message; what is a device is read, written, and asked for its regions.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nandkit_flash::{ErrorKind, Flash, PageProgram, PageRead};
use nandkit_flash_image::{BadMarker, DumpFlash, Image, ImageLayout, OobPlacement, detect, regions, text};
use nandkit_units::{BlockIndex, Context, FlashKind};

/// Blocks looked at, so that one input does not take long.
const BLOCKS: u32 = 8;

/// Bytes of the longest page that is read.
const PAGE: u32 = 1 << 20;

/// Numbers from the input's beginning.
struct Numbers<'a>(&'a [u8]);

impl Numbers<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// Mostly a size that some flash has, now and then any number.
    fn size(&mut self) -> u32 {
        let (exponent, odd) = (self.byte(), self.byte());
        match exponent {
            0..=200 => 1 << (exponent % 16),
            201..=240 => u32::from(odd) * 16,
            _ => u32::from_le_bytes([odd, self.byte(), self.byte(), self.byte()]),
        }
    }

    fn layout(&mut self) -> ImageLayout {
        let kind = if self.byte() & 1 == 0 { FlashKind::Nand } else { FlashKind::Nor };
        let oob = [OobPlacement::None, OobPlacement::AfterPage, OobPlacement::AfterBlock, OobPlacement::Separate]
            [usize::from(self.byte() & 3)];
        let mut layout = ImageLayout::new(kind, self.size(), self.size(), self.size(), oob);
        if oob == OobPlacement::None {
            layout.oob_size = 0;
        }
        layout.offset = u64::from(self.size().saturating_sub(1));
        layout.oob_offset = u64::from(self.size().saturating_sub(1));
        let more = self.byte();
        if more & 1 == 1 {
            layout.size = Some(u64::from(self.size()));
        }
        if more & 2 == 2 {
            layout.write_unit = self.size();
        }
        if more & 4 == 4 {
            layout.marker = BadMarker::Byte { offset: self.size().saturating_sub(1), pages: u32::from(self.byte()) };
        }
        layout.missing = (0..more >> 6).map(|_| u32::from(self.byte())).collect();
        layout.bad = (0..more >> 4 & 3).map(|_| u32::from(self.byte())).collect();
        layout
    }
}

/// Reads and changes what there is in a few blocks.
fn use_device(device: &mut DumpFlash) {
    let geometry = *device.geometry();
    if geometry.page_size.max(geometry.oob_size) > PAGE {
        return;
    }
    let context = Context::default();
    let (mut data, mut oob) = (vec![0; geometry.page_size as usize], vec![0; geometry.oob_size as usize]);
    let last = geometry.blocks.saturating_sub(1);
    for block in (0..geometry.blocks.min(BLOCKS)).chain([last, geometry.blocks]).map(BlockIndex) {
        let bad = device.is_bad(block);
        for page in [0, 1, geometry.pages_per_block - 1] {
            let at = block.page(page);
            let read = device.read(&context, at, PageRead { oob: &mut oob, ..PageRead::bytes(0, &mut data) });
            assert_eq!(read.is_ok(), geometry.contains(at), "{at:?}: {read:?}");
            assert!(device.page_bytes(at).is_none_or(|held| held == data), "two ways to read a page");
        }
        let _ = device.block_bytes(block);
        if device.erase(&context, block).is_ok() {
            assert!(!bad, "a bad block is not erased");
            let programmed = device.program(&context, block.page(0), PageProgram::bytes(0, &vec![0x5A; data.len()]));
            device.read(&context, block.page(0), PageRead::bytes(0, &mut data)).unwrap();
            match programmed {
                Ok(_) => assert!(data.iter().all(|byte| *byte == 0x5A), "what was written is read"),
                // The region ends before the block does.
                Err(error) => assert_eq!(error.kind, ErrorKind::ReadOnly, "{error}"),
            }
        }
    }
    let _ = (device.info(), device.layout().describe());
}

fuzz_target!(|data: &[u8]| {
    if text::is_text_dump(data) {
        let _ = text::parse_text_dump(data).map(|dump| dump.missing_blocks(4096));
    }
    let mut numbers = Numbers(data);
    let named = numbers.layout();
    let bytes = numbers.0.to_vec();
    if let Ok(words) = std::str::from_utf8(&bytes) {
        let _ = regions::parse_mtdparts(words);
    }
    let separate = named.oob == OobPlacement::Separate;
    let split = if separate { bytes.len() - bytes.len() / 4 } else { bytes.len() };
    let oob = separate.then(|| bytes[split..].to_vec());
    let Ok(image) = Image::from_bytes(bytes[..split].to_vec(), oob) else { return };
    let candidates = detect::candidates(image.bytes());
    assert_eq!(detect::by_layout(&candidates).len(), candidates.len());
    if !separate {
        for candidate in candidates.iter().take(4) {
            let device = image.view(candidate.layout.clone()).expect("a candidate is a layout of the image");
            let found = regions::regions(&device, &[], Vec::new());
            assert!(found.iter().all(|region| region.offset + region.size <= device.geometry().capacity()));
        }
    }
    let _ = named.region(u64::from(numbers.byte()) << 12, Some(8192)).map(|layout| image.view(layout));
    match DumpFlash::new(image, named) {
        Ok(mut device) => use_device(&mut device),
        Err(error) => assert!(!error.to_string().is_empty(), "an error says something"),
    }
});

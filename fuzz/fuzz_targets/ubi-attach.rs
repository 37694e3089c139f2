//! Images of UBI of any content are attached or refused; what is attached is walked, checked and
//! changed, and what was changed is attached again.
//!
//! The first byte says how blocks are divided, and whether headers get right checksums, so that
//! what they say is looked at.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nandkit_testkit::flash_memory::RamFlash;
use nandkit_testkit::hostile;
use nandkit_ubi::layout::{HEADER_SIZE, RECORD_SIZE, checksum};
use nandkit_ubi::write::{UbiWriter, WriteOptions};
use nandkit_ubi::{Leb, Ubi};
use nandkit_units::Clock;

const PEB: usize = 4096;

/// Gives the headers, and the volume table where one may be, right checksums.
fn mend(image: &mut [u8], (vid, data): (usize, usize)) {
    for peb in image.chunks_exact_mut(PEB) {
        for at in [0, vid] {
            let header = &mut peb[at..at + HEADER_SIZE];
            let sum = checksum(&header[..HEADER_SIZE - 4]).to_be_bytes();
            header[HEADER_SIZE - 4..].copy_from_slice(&sum);
        }
        for record in peb[data..].chunks_exact_mut(RECORD_SIZE).take(4) {
            let sum = checksum(&record[..RECORD_SIZE - 4]).to_be_bytes();
            record[RECORD_SIZE - 4..].copy_from_slice(&sum);
        }
    }
}

fn attached(image: Vec<u8>) -> Option<Ubi<RamFlash>> {
    Ubi::attach(RamFlash::nor(image, PEB as u32), Clock::default()).ok()
}

fuzz_target!(|data: &[u8]| {
    let Some((choice, data)) = data.split_first() else { return };
    let mut image = data.to_vec();
    image.resize(image.len().next_multiple_of(PEB).clamp(PEB, 16 * PEB), 0xFF);
    if choice & 1 == 1 {
        mend(&mut image, if choice & 2 == 0 { (64, 128) } else { (512, 1024) });
    }
    let Some(ubi) = attached(image) else { return };
    hostile::roam(&ubi, 1000);
    ubi.check().unwrap();
    // What is written goes to free blocks.
    let bytes = [&ubi.into_flash().data[..], &[0xFF; 8 * PEB]].concat();
    let Some(Ok(mut writer)) = attached(bytes).map(|ubi| UbiWriter::new(ubi, WriteOptions::default())) else { return };
    let numbers: Vec<u32> = writer.ubi().volumes().iter().map(|volume| volume.number).collect();
    for number in numbers {
        // Each may be refused: for a size, a type, or for room.
        let _ = writer.change_leb(number, Leb(0), &[1; 64]);
        let _ = writer.update_volume(number, &mut &[7; 5000][..], 5000);
        let _ = writer.resize_volume(number, u64::from(*choice));
        if choice & 4 == 0 {
            let _ = writer.remove_volume(number);
        }
    }
    let Ok(flash) = writer.finish() else { return };
    Ubi::attach(flash, Clock::default()).expect("the device that was written");
});

//! Small parts of stacks and images, each on its own.

use std::sync::{Arc, Mutex};

use nandkit_block::{BlockDevice, RamDevice, RemapLimits};
use nandkit_flash_image::Image;
use nandkit_stack::format::RepairedImage;
use nandkit_stack::format::f2fs::{Curve, costs_of, has_times, remaps};
use nandkit_stack::image::copy_sectors;
use nandkit_stack::{DeviceHandle, DeviceSpec, FtlSpec, HostCost};
use nandkit_units::{Clock, Context, Lba, Nanos, Payload, ReadInto, StatisticValue, Statistics as _};

/// Bytes of the pieces in which images are copied.
const PIECE: usize = 64 << 10;

#[test]
fn handles_share_content_and_capabilities() {
    let device = Arc::new(Mutex::new(RamDevice::with_sectors(512, 64).unwrap()));
    let (mut one, mut other) = (DeviceHandle::new(Arc::clone(&device)), DeviceHandle::new(device));
    let context = Context::default();
    one.write(&context, Lba(3), Payload::Bytes(&[7; 512])).unwrap();
    let mut found = [0; 512];
    other.read(&context, Lba(3), ReadInto::Bytes(&mut found)).unwrap();
    assert_eq!(found, [7; 512]);
    BlockDevice::trim(&mut other).expect("memory takes trims").trim(&context, Lba(3), 1).unwrap();
    one.read(&context, Lba(3), ReadInto::Bytes(&mut found)).unwrap();
    assert_eq!(found, [0; 512]);
}

#[test]
fn requests_take_the_processor_one_after_the_other() {
    let ram = Arc::new(Mutex::new(RamDevice::with_sectors(4096, 64).unwrap()));
    let mut device = HostCost::new(DeviceHandle::new(ram), Nanos(2500));
    let mut page = [0; 4096];
    let read = |device: &HostCost, issued, page: &mut [u8]| {
        device.read(&Context::at(Nanos(issued)), Lba(0), ReadInto::Bytes(page)).unwrap().completed
    };
    // Memory takes no time.
    assert_eq!(read(&device, 1000, &mut page), Nanos(3500));
    assert_eq!(read(&device, 1000, &mut page), Nanos(6000), "the second of two at once waits");
    assert_eq!(read(&device, 9000, &mut page), Nanos(11_500));
    // A large request costs as much as a small one.
    let mut pages = vec![0; 32 * 4096];
    assert_eq!(read(&device, 20_000, &mut pages), Nanos(22_500));
    let context = Context::at(Nanos(30_000));
    assert_eq!(device.write(&context, Lba(0), Payload::Bytes(&page)).unwrap().completed, Nanos(32_500));
    assert_eq!(device.flush(&context).unwrap().completed, Nanos(35_000));
    let mut counted = Vec::new();
    device.collect(&mut |name, value| counted.push((name, value)));
    let count = StatisticValue::Count;
    let expected =
        [("host_requests", count(6)), ("host_request_time_ns", count(15_000)), ("host_request_wait_ns", count(5000))];
    assert_eq!(counted, expected);
}

#[test]
fn it_can_what_the_device_can() {
    let ram = Arc::new(Mutex::new(RamDevice::with_sectors(4096, 64).unwrap()));
    let mut device = HostCost::new(DeviceHandle::new(ram), Nanos(1));
    let mut plain = RamDevice::with_sectors(4096, 64).unwrap();
    assert_eq!(device.remap().is_some(), plain.remap().is_some());
    assert_eq!(BlockDevice::trim(&mut device).is_some(), BlockDevice::trim(&mut plain).is_some());
    assert_eq!(device.geometry(), plain.geometry());
}

#[test]
fn patches_lie_over_the_image_and_behind_it() {
    let mut bytes = vec![0; 3 * PIECE];
    bytes[PIECE..PIECE + 9].fill(7);
    let image = Image::from_bytes(bytes.clone(), None).expect("an image");
    let end = bytes.len() as u64;
    let patches =
        vec![(3, Arc::from([8, 2])), (3, Arc::from([1])), (PIECE as u64, Arc::from([9])), (end, Arc::from([4]))];
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    RepairedImage::patched(image, patches, 0).write_to(file.as_file_mut()).expect("it is written");
    bytes[3..5].copy_from_slice(&[1, 2]);
    bytes[PIECE] = 9;
    bytes.push(4);
    assert_eq!(std::fs::read(file.path()).expect("a file"), bytes);
}

/// Images of 2 TiB and more have sectors of 4 KiB, devices others.
#[test]
fn sectors_of_any_size_are_copied_to_sectors_of_any_other() {
    let sectors = 2 * PIECE / 512 + 8;
    let bytes: Vec<u8> =
        (0..sectors * 512).map(|at| if at % 4096 < 512 { 0 } else { (at / 512 % 251) as u8 }).collect();
    for (from, to) in [(512, 512), (4096, 512), (512, 4096), (4096, 4096)] {
        let made = |size: u32| RamDevice::with_sectors(size, bytes.len() as u64 / u64::from(size)).unwrap();
        let (mut image, mut device) = (made(from), made(to));
        image.write(&Context::default(), Lba(0), Payload::Bytes(&bytes)).unwrap();
        let geometry = *device.geometry();
        copy_sectors(&image, &mut device, &geometry, &Clock::default()).unwrap();
        let mut copy = vec![0xEE; bytes.len()];
        device.read(&Context::default(), Lba(0), ReadInto::Bytes(&mut copy)).unwrap();
        assert!(copy == bytes, "from sectors of {from} to those of {to}");
    }
}

/// Of specs/ssds/p3-ssd.toml: 64 dies, reads of 80 us, programs of 800 us, 4096 bytes in
/// 7.3 us over the link, 10.5 us a command, 20 and 7.5 us besides, a buffer of 1 MiB.
#[test]
fn the_costs_of_a_drive_follow_from_its_parts() {
    let device = DeviceSpec::preset("p3-ssd").unwrap();
    let limits = RemapLimits { unit: 4096, pairs_max: 30 };
    let costs = costs_of(&device, &device.default_layer(), Some(limits), Curve::default()).unwrap();
    let times = &costs.reads.times;
    assert_eq!(times.read(1), 10_500.0 + 20_000.0 + 80_000.0 + 7_315.0);
    assert_eq!(times.read(65), 10_500.0 + 20_000.0 + 160_000.0 + 65.0 * 7_315.0);
    assert_eq!(times.write(64), 10_500.0 + 7_500.0 + 800_000.0 + 64.0 * 7_315.0);
    assert_eq!((costs.reads.page_ns, costs.flush_ns), (80_000.0, 2.0 * 800_000.0));
    let remap = costs.remap.unwrap();
    assert_eq!((remap.command_ns, remap.pairs_max, remap.unit), (810_500.0, 30, 1));
    assert!(remaps(&device, &device.default_layer()) && !remaps(&device, &FtlSpec::None));
    let card = DeviceSpec::preset("card-c").unwrap();
    assert!(costs_of(&card, &FtlSpec::None, None, Curve::default()).unwrap().remap.is_none());
    assert!(!has_times(&DeviceSpec::preset("ram").unwrap()));
}

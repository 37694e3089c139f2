//! Checks that a request in several parts acts as one request.

use nandkit_block::{BlockDevice, ErrorKind};
use nandkit_units::{Assembly, Content, Context, Described, Description, Generator, Lba, Payload, ReadInto};

use super::bench::Bench;
use crate::flash_suite::same;

/// Writes and reads in parts have the content, the instants and the errors of the same request in
/// one part.
pub fn parts(bench: &mut Bench<'_>) -> Result<(), String> {
    let sector = bench.geometry.sector_size;
    let bytes = bench.random_sectors(4);
    let size = bench.size();
    let described = |record, sectors| {
        let description = Description { record, version: 1, offset: 8, generator: Generator::Record };
        Payload::Described(Described { description, length: sectors * sector })
    };
    let zeros = Described { description: Description::default(), length: sector };
    let mixed = [
        Payload::Bytes(&bytes[..size]),
        described(5, 2),
        Payload::Bytes(&[]),
        Payload::Described(zeros),
        Payload::Bytes(&bytes[size..]),
    ];
    // Parts that end inside sectors.
    let uneven = [Payload::Bytes(&bytes[..size / 2 + 8]), Payload::Bytes(&bytes[size / 2 + 8..3 * size])];
    for (number, parts) in
        [&mixed[..], &mixed[..1], &uneven[..], &[], &[described(6, 1), described(7, 1)]].iter().enumerate()
    {
        write_as_one(bench, Lba(3), parts).map_err(|error| format!("parts {number}: {error}"))?;
    }
    read_as_one(bench, Lba(2), sector, 7)?;
    read_as_one(bench, Lba(2), 2 * sector, 3)?;
    refused(bench, &bytes)
}

/// Writes the parts to this device, and joined to another in the same state: content and instants
/// are the same.
fn write_as_one(bench: &mut Bench<'_>, at: Lba, parts: &[Payload<'_>]) -> Result<(), String> {
    let context = Context::at(bench.now);
    let (mut one, mut other) = (bench.another(), bench.another());
    let mut expected = Vec::new();
    for part in parts {
        let start = expected.len();
        expected.resize(start + part.len(), 0);
        part.copy_to(&mut expected[start..]);
    }
    let whole =
        one.write(&context, at, Payload::joined(parts, &mut Assembly::new())).map_err(|error| error.to_string())?;
    let done = other.write_parts(&context, at, parts).map_err(|error| format!("refused: {error}"))?;
    if (done.completed, done.busy) != (whole.completed, whole.busy) {
        return Err(format!("{done:?}; the same in one part: {whole:?}"));
    }
    let done = bench.device.write_parts(&context, at, parts).map_err(|error| format!("refused: {error}"))?;
    bench.now = bench.now.max(done.completed);
    bench.expect(at, &expected, "written in parts")
}

fn read_as_one(bench: &mut Bench<'_>, at: Lba, unit: u32, count: usize) -> Result<(), String> {
    let filled = bench.random_sectors(9);
    let context = Context::at(bench.now);
    let (mut one, mut other) = (bench.another(), bench.another());
    for device in [&mut one, &mut other] {
        let written = device.write(&context, Lba(4), Payload::Bytes(&filled)).map_err(|error| error.to_string())?;
        bench.now = bench.now.max(written.completed);
    }
    let context = Context::at(bench.now);
    let expected = whole(&*one, &context, at, unit as usize * count)?;
    let mut contents = vec![Content::new(); count];
    let done = other.read_parts(&context, at, unit, &mut contents).map_err(|error| format!("read: {error}"))?;
    if (done.completed, done.busy) != (expected.1.completed, expected.1.busy) {
        return Err(format!("a read of {count} parts of {unit} bytes: {done:?}; in one part: {:?}", expected.1));
    }
    for (content, expected) in contents.iter_mut().zip(expected.0.chunks(unit as usize)) {
        same(content.to_bytes(), expected).map_err(|detail| format!("a part of {unit} bytes: {detail}"))?;
    }
    Ok(())
}

fn whole(
    device: &dyn BlockDevice,
    context: &Context,
    at: Lba,
    bytes: usize,
) -> Result<(Vec<u8>, nandkit_units::Done), String> {
    let mut content = Content::new();
    let into = ReadInto::Content { content: &mut content, length: bytes as u32 };
    let done = device.read(context, at, into).map_err(|error| error.to_string())?;
    Ok((content.to_bytes().to_vec(), done))
}

/// Parts that reach outside the device, or are no whole sectors together, change nothing.
fn refused(bench: &mut Bench<'_>, bytes: &[u8]) -> Result<(), String> {
    let (size, last, context) = (bench.size(), bench.last(), bench.context());
    let before = bench.fill(last, 1)?;
    let two = [Payload::Bytes(&bytes[..size]), Payload::Bytes(&bytes[size..2 * size])];
    let result = bench.device.write_parts(&context, last, &two);
    Bench::expect_error(result, ErrorKind::OutOfRange, "parts that reach outside")?;
    let half = [Payload::Bytes(&bytes[..size]), Payload::Bytes(&bytes[..size / 2])];
    let result = bench.device.write_parts(&context, Lba(last.0 - 2), &half);
    Bench::expect_error(result, ErrorKind::OutOfRange, "parts that are no whole sectors")?;
    bench.expect(last, &before, "after refused parts")?;
    let mut contents = vec![Content::new(); 2];
    let result = bench.device.read_parts(&context, last, size as u32, &mut contents);
    Bench::expect_error(result, ErrorKind::OutOfRange, "a read of parts that reach outside")?;
    let result = bench.device.read_parts(&context, Lba(0), size as u32 / 2, &mut contents);
    Bench::expect_error(result, ErrorKind::OutOfRange, "a read of parts of half a sector")
}

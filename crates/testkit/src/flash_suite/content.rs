//! Descriptions, reads into every kind of destination, and reads in parallel.

use nandkit_flash::{ErrorKind, Flash, PageProgram, PageRead};
use nandkit_units::{Content, Described, Description, Generator, PageAddress, Payload, ReadInto};

use super::bench::{Bench, same};
use crate::violation::ensure;

fn descriptions(length: u32) -> [Described; 3] {
    let describe = |record, version, offset, generator| Described {
        description: Description { record, version, offset, generator },
        length,
    };
    [
        describe(5, 9, 0, Generator::Record),
        describe(u64::MAX, u32::MAX, 4096, Generator::Record),
        describe(0, 0, 0, Generator::Zero),
    ]
}

fn bytes_of(described: Described) -> Vec<u8> {
    let mut bytes = vec![0; described.length as usize];
    described.description.generate(&mut bytes);
    bytes
}

/// A described payload reads as the bytes it describes: whole, in part, as bytes and as content.
pub fn described(bench: &mut Bench<'_>) -> Result<(), String> {
    if !bench.options.keeps_bytes {
        return Ok(());
    }
    let size = bench.geometry.page_size;
    let oob = bench.random_page().1;
    for (block, described) in bench.blocks(3)?.into_iter().zip(descriptions(size)) {
        let at = block.page(0);
        bench.program(at, PageProgram::new(Payload::Described(described), &oob))?;
        let expected = bytes_of(described);
        bench.expect_page(at, &(expected.clone(), oob.clone()), &format!("{described:?} programmed"))?;
        for (column, length) in [(0, size), (8, 64), (13, 100), (size / 2, size / 2), (size - 1, 1)] {
            let (start, end) = (column as usize, (column + length) as usize);
            let mut found = vec![0; length as usize];
            bench
                .flash
                .read(&bench.context(), at, PageRead::bytes(column, &mut found))
                .map_err(|error| error.to_string())?;
            same(&found, &expected[start..end])
                .map_err(|detail| format!("{length} bytes from column {column} of {described:?}: {detail}"))?;
            read_content(bench, at, column, &expected[start..end])?;
        }
    }
    Ok(())
}

fn read_content(bench: &Bench<'_>, at: PageAddress, column: u32, expected: &[u8]) -> Result<(), String> {
    let mut content = Content::new();
    content.set_bytes(3).fill(0x77);
    let length = expected.len() as u32;
    let read = PageRead { column, data: ReadInto::Content { content: &mut content, length }, oob: &mut [] };
    bench.flash.read(&bench.context(), at, read).map_err(|error| error.to_string())?;
    same(content.to_bytes(), expected)
        .map_err(|detail| format!("content of {length} bytes from column {column} of {at}: {detail}"))
}

/// Reads into a content deliver what reads into bytes do, for programmed, mixed and erased pages; a
/// content may be programmed elsewhere.
pub fn content_reads(bench: &mut Bench<'_>) -> Result<(), String> {
    if !bench.options.keeps_bytes {
        return Ok(());
    }
    let blocks = bench.blocks(2)?;
    let (at, copy) = (blocks[0].page(0), blocks[1].page(0));
    let (data, oob) = bench.fill_page(at)?;
    let size = data.len();
    for (column, length) in [(0, size), (1, 10), (size / 2, size / 2), (0, 0)] {
        read_content(bench, at, column as u32, &data[column..column + length])?;
    }
    read_content(bench, copy, 0, &vec![0xFF; size])?;
    let mut content = Content::new();
    let read =
        PageRead { column: 0, data: ReadInto::Content { content: &mut content, length: size as u32 }, oob: &mut [] };
    bench.flash.read(&bench.context(), at, read).map_err(|error| error.to_string())?;
    bench.program(copy, PageProgram::new(content.payload(), &oob))?;
    bench.expect_page(copy, &(data, oob), "content moved from another page")
}

/// A store without bytes answers `NoContent`, and still delivers time and OOB.
pub fn no_content(bench: &mut Bench<'_>) -> Result<(), String> {
    let at = bench.blocks(1)?[0].page(0);
    let (data, oob) = bench.fill_page(at)?;
    let context = bench.context();
    if bench.options.keeps_bytes {
        return bench.expect_page(at, &(data, oob), "a store with bytes");
    }
    let mut buffer = vec![0; data.len()];
    let result = bench.flash.read(&context, at, PageRead::bytes(0, &mut buffer));
    Bench::expect_error(result, ErrorKind::NoContent, "a read of bytes from a store without")?;
    let read = PageRead { column: 0, data: ReadInto::Nothing { length: data.len() as u32 }, oob: &mut [] };
    let done = bench.flash.read(&context, at, read).map_err(|error| format!("a read of nothing: {error}"))?;
    ensure!(done.completed >= context.issued, "a read of nothing ended before it was issued");
    Ok(())
}

/// Reads of several threads at once each deliver their own page.
pub fn parallel_reads(bench: &mut Bench<'_>) -> Result<(), String> {
    let mut written = Vec::new();
    for block in bench.blocks(3)? {
        for page in 0..bench.geometry.pages_per_block.min(4) {
            let at = block.page(page);
            written.push((at, bench.fill_page(at)?));
        }
    }
    let (flash, context) = (&*bench.flash, bench.context());
    let keeps_bytes = bench.options.keeps_bytes;
    let reader = |first: usize| -> Result<(), String> {
        for round in 0..40 {
            let (at, (data, oob)) = &written[(first + round * 5) % written.len()];
            let (mut found, mut found_oob) = (vec![0; data.len()], vec![0; oob.len().min(16)]);
            let into =
                if keeps_bytes { ReadInto::Bytes(&mut found) } else { ReadInto::Nothing { length: data.len() as u32 } };
            flash
                .read(&context, *at, PageRead { column: 0, data: into, oob: &mut found_oob })
                .map_err(|error| error.to_string())?;
            if keeps_bytes {
                same(&found, data).map_err(|detail| format!("data of {at} read in parallel: {detail}"))?;
            }
            same(&found_oob, &oob[..found_oob.len()])
                .map_err(|detail| format!("OOB of {at} read in parallel: {detail}"))?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let reader = &reader;
        let threads: Vec<_> = (0..4).map(|first| scope.spawn(move || reader(first))).collect();
        threads.into_iter().try_for_each(|thread| match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })
}

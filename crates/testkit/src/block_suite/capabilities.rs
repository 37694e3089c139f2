//! Checks of trim and remap, where a device offers them, and the random run.

use nandkit_block::ErrorKind;
use nandkit_units::{Lba, Payload};

use super::bench::Bench;
use crate::model_block::ModelBlockDevice;
use crate::violation::ensure;

/// Trimmed sectors read as zeroes, their neighbours do not; trimmed sectors can be written again.
pub fn trim(bench: &mut Bench<'_>) -> Result<(), String> {
    if bench.device.trim().is_none() {
        return Ok(());
    }
    let (sectors, size) = (bench.geometry.sectors, bench.size());
    for (at, count) in [(2, 1), (3, 4), (0, 2), (sectors - 3, 3), (sectors - 9, 8), (0, sectors)] {
        let first = at.saturating_sub(2);
        let end = (at + count + 2).min(sectors);
        let mut held = bench.fill(Lba(first), end - first)?;
        let context = bench.context();
        let Some(trim) = bench.device.trim() else { return Err("the capability went away".to_string()) };
        let done = trim.trim(&context, Lba(at), count).map_err(|error| format!("a plain trim was refused: {error}"))?;
        bench.now = bench.now.max(done.completed);
        held[(at - first) as usize * size..(at + count - first) as usize * size].fill(0);
        bench.expect(Lba(first), &held, &format!("after a trim of {count} sectors at {at}"))?;
        let again = bench.fill(Lba(at), 1)?;
        bench.expect(Lba(at), &again, "written after a trim")?;
    }
    Ok(())
}

/// Shared and moved sectors, independence afterwards, and what must be refused.
pub fn remap(bench: &mut Bench<'_>) -> Result<(), String> {
    let Some(limits) = bench.device.remap().map(|remap| remap.limits()) else { return Ok(()) };
    let unit = limits.unit;
    ensure!(limits.pairs_max >= 2, "commands of at most {} pairs; the suite needs two", limits.pairs_max);
    let size = bench.geometry.sector_size;
    ensure!(unit >= size && unit.is_multiple_of(size), "a remap unit of {unit} bytes for sectors of {size}");
    let step = u64::from(unit / size);
    ensure!(bench.geometry.sectors >= 8 * step, "the suite needs eight remap units");
    let unit_at = |number: u64| Lba(number * step);
    let (one, two) = (bench.fill(unit_at(0), step)?, bench.fill(unit_at(1), step)?);
    let context = bench.context();
    let refused = |bench: &mut Bench<'_>, pairs: &[(Lba, Lba)], kind, what: &str| {
        let Some(remap) = bench.device.remap() else { return Err("the capability went away".to_string()) };
        Bench::expect_error(remap.share(&context, pairs), kind, &format!("share of {what}"))?;
        let Some(remap) = bench.device.remap() else { return Err("the capability went away".to_string()) };
        Bench::expect_error(remap.remap_move(&context, pairs), kind, &format!("move of {what}"))
    };
    let Some(remap) = bench.device.remap() else { return Err("the capability went away".to_string()) };
    remap
        .share(&context, &[(unit_at(0), unit_at(4)), (unit_at(1), unit_at(5))])
        .map_err(|error| format!("a plain share was refused: {error}"))?;
    for (number, bytes) in [(0, &one), (1, &two), (4, &one), (5, &two)] {
        bench.expect(unit_at(number), bytes, "after a share")?;
    }
    let new = bench.fill(unit_at(0), step)?;
    bench.expect(unit_at(4), &one, "the target of a share, after a write to its source")?;
    let Some(remap) = bench.device.remap() else { return Err("the capability went away".to_string()) };
    remap
        .remap_move(&context, &[(unit_at(0), unit_at(6))])
        .map_err(|error| format!("a plain move was refused: {error}"))?;
    bench.expect(unit_at(6), &new, "the target of a move")?;
    bench.expect(unit_at(0), &vec![0; new.len()], "the source of a move")?;
    let outside = Lba(bench.geometry.sectors);
    refused(bench, &[(unit_at(1), outside)], ErrorKind::OutOfRange, "a target outside the device")?;
    refused(bench, &[(outside, unit_at(1))], ErrorKind::OutOfRange, "a source outside the device")?;
    refused(bench, &[(unit_at(7), unit_at(3))], ErrorKind::Unmapped, "a source without content")?;
    refused(bench, &[(unit_at(1), unit_at(3)), (unit_at(6), unit_at(3))], ErrorKind::Overlap, "one target twice")?;
    refused(bench, &[(unit_at(1), unit_at(4)), (unit_at(4), unit_at(2))], ErrorKind::Overlap, "a target as source")?;
    bench.expect(unit_at(1), &two, "after refused remaps")?;
    bench.expect(unit_at(4), &one, "after refused remaps")?;
    bench.expect(unit_at(6), &new, "after refused remaps")
}

/// Reads, writes, trims and flushes in random order, compared with the model.
pub fn model(bench: &mut Bench<'_>) -> Result<(), String> {
    let mut model = ModelBlockDevice::new(&bench.geometry);
    let sectors = bench.geometry.sectors;
    for round in 0..bench.options.rounds {
        let at = bench.random.below(sectors);
        let count = bench.random.between(1, (sectors - at).min(9));
        let context = bench.context();
        let fail = |error: nandkit_block::BlockError| format!("round {round}: {error}");
        match bench.random.below(10) {
            0..4 => {
                let bytes = bench.random_sectors(count);
                bench.device.write(&context, Lba(at), Payload::Bytes(&bytes)).map_err(fail)?;
                model.write(Lba(at), &bytes);
            }
            4 => {
                if let Some(trim) = bench.device.trim() {
                    trim.trim(&context, Lba(at), count).map_err(fail)?;
                    model.trim(Lba(at), count);
                }
            }
            5 => {
                bench.device.flush(&context).map_err(fail)?;
                model.flush();
            }
            _ => {
                let bytes = bench.read(Lba(at), count).map_err(|error| format!("round {round}: {error}"))?;
                model.check_read(Lba(at), &bytes).map_err(|detail| format!("round {round}: {detail}"))?;
            }
        }
    }
    for sector in 0..sectors.min(4096) {
        let bytes = bench.read(Lba(sector), 1)?;
        model.check_read(Lba(sector), &bytes).map_err(|detail| format!("at the end: {detail}"))?;
    }
    Ok(())
}

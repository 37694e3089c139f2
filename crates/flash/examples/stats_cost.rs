//! What counting costs: `cargo run --release -p nandkit-flash --example stats_cost`.
//!
//! A device that does nothing, with and without the counting wrapper; the difference per operation is the wrapper's cost.

use std::hint::black_box;
use std::time::Instant;

use nandkit_flash::wrap::StatsFlash;
use nandkit_flash::{Flash, PageProgram, PageRead, Result};
use nandkit_units::{
    BlockIndex, Cause, Context, Described, Done, FlashGeometry, Nanos, PageAddress, Payload, ReadInto,
};

struct Idle(FlashGeometry);

impl Flash for Idle {
    fn geometry(&self) -> &FlashGeometry {
        &self.0
    }
    fn read(&self, context: &Context, _: PageAddress, _: PageRead<'_>) -> Result<Done> {
        Ok(Done { busy: Nanos(25), ..Done::immediately(black_box(context)) })
    }
    fn program(&mut self, context: &Context, _: PageAddress, _: PageProgram<'_>) -> Result<Done> {
        Ok(Done { busy: Nanos(200), ..Done::immediately(black_box(context)) })
    }
    fn erase(&mut self, context: &Context, _: BlockIndex) -> Result<Done> {
        Ok(Done { busy: Nanos(2000), ..Done::immediately(black_box(context)) })
    }
    fn is_bad(&self, _: BlockIndex) -> bool {
        false
    }
    fn mark_bad(&mut self, context: &Context, _: BlockIndex) -> Result<Done> {
        Ok(Done::immediately(context))
    }
    fn sync(&mut self, context: &Context) -> Result<Done> {
        Ok(Done::immediately(context))
    }
}

const ROUNDS: u32 = 50_000_000;

/// Nanoseconds per operation: programs, reads, erases; the best of three.
fn measure(flash: &mut impl Flash) -> [f64; 3] {
    let payload = Payload::Described(Described { length: 2048, ..Described::default() });
    let mut best = [f64::MAX; 3];
    for _ in 0..3 {
        let start = Instant::now();
        for round in 0..ROUNDS {
            let context = Context::at(Nanos(u64::from(round))).for_cause(Cause::ALL[round as usize & 3]);
            let at = PageAddress::new(round & 255, round & 63);
            let _ = black_box(flash.program(&context, at, PageProgram::new(payload, &[0; 16])));
        }
        let programs = start.elapsed();
        let start = Instant::now();
        for round in 0..ROUNDS {
            let context = Context::at(Nanos(u64::from(round))).for_cause(Cause::ALL[round as usize & 3]);
            let read = PageRead { column: 0, data: ReadInto::Nothing { length: 2048 }, oob: &mut [] };
            let _ = black_box(flash.read(&context, PageAddress::new(round & 255, round & 63), read));
        }
        let reads = start.elapsed();
        let start = Instant::now();
        for round in 0..ROUNDS {
            let context = Context::at(Nanos(u64::from(round))).for_cause(Cause::ALL[round as usize & 3]);
            let _ = black_box(flash.erase(&context, BlockIndex(round & 255)));
        }
        for (best, elapsed) in best.iter_mut().zip([programs, reads, start.elapsed()]) {
            *best = best.min(elapsed.as_secs_f64() * 1e9 / f64::from(ROUNDS));
        }
    }
    best
}

fn main() {
    let geometry = FlashGeometry::default();
    let bare = measure(&mut Idle(geometry));
    let counted = measure(&mut StatsFlash::new(Idle(geometry)));
    for (index, name) in ["program", "read", "erase"].into_iter().enumerate() {
        println!(
            "{name}: {:.2} ns without, {:.2} ns with counting: {:.2} ns",
            bare[index],
            counted[index],
            counted[index] - bare[index]
        );
    }
}

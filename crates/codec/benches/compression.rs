//! Throughput in bytes of page per second, by method, content and direction, on one core.
//!
//! `cargo bench -p nandkit-codec --bench compression` prints a table of the packed lengths, then
//! one line a measurement. Pages are 4 KiB: text (the documents of the repository), binary (this
//! program), zero. The throughput counts unpacked bytes.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use nandkit_codec::compression::{Compression, Compressor, Decompressor, Level};

const PAGE: usize = 4096;

const METHODS: [(&str, Compression, Level); 7] = [
    ("none", Compression::None, Level::LINUX),
    ("rtime", Compression::Rtime, Level::LINUX),
    ("zlib-3", Compression::Zlib, Level::LINUX),
    ("zlib-6", Compression::Zlib, Level::new(6)),
    ("zlib-9", Compression::Zlib, Level::BEST),
    ("lzo-3", Compression::Lzo, Level::LINUX),
    ("lzo-9", Compression::Lzo, Level::BEST),
];

/// 64 pages of each content, from the middle of its source.
fn contents() -> [(&'static str, Vec<u8>); 3] {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");
    let text = ["ARCHITECTURE.md", "CONTRIBUTING.md", "README.md", "docs/formats/fat.md", "docs/guide/claims.md"];
    let text: Vec<u8> = text.iter().flat_map(|name| std::fs::read(format!("{root}{name}")).unwrap()).collect();
    let text = text.iter().copied().cycle().take(64 * PAGE).collect();
    let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let binary = program[program.len() / 4..][..64 * PAGE].to_vec();
    [("text", text), ("binary", binary), ("zero", vec![0; 64 * PAGE])]
}

/// The packed pages; a page that does not shrink is stored as it is.
fn pack(method: Compression, level: Level, content: &[u8]) -> Vec<(bool, Vec<u8>)> {
    let mut compressor = Compressor::new();
    let packed = content.chunks(PAGE).map(|page| {
        let mut packed = vec![0; PAGE];
        match compressor.compress(method, level, page, &mut packed) {
            Some(length) => (true, packed[..length].to_vec()),
            None => (false, page.to_vec()),
        }
    });
    packed.collect()
}

/// The length that zlib's own algorithm reaches, for comparison.
fn flate2_length(level: u32, content: &[u8]) -> usize {
    let packed = content.chunks(PAGE).map(|page| {
        let mut packed = Vec::with_capacity(2 * PAGE);
        let mut deflater = flate2::Compress::new(flate2::Compression::new(level), true);
        deflater.compress_vec(page, &mut packed, flate2::FlushCompress::Finish).unwrap();
        packed.len().min(page.len())
    });
    packed.sum()
}

fn compression(criterion: &mut Criterion) {
    for (kind, content) in contents() {
        for (name, method, level) in METHODS {
            let packed: usize = pack(method, level, &content).iter().map(|(_, page)| page.len()).sum();
            println!("{kind:8} {name:8} {packed:8} of {} bytes", content.len());
        }
        for level in [3, 9] {
            println!("{kind:8} flate2-{level} {:8} of {} bytes", flate2_length(level, &content), content.len());
        }
        let mut group = criterion.benchmark_group(kind);
        group.throughput(Throughput::Bytes(content.len() as u64));
        for (name, method, level) in METHODS {
            let (mut compressor, mut room) = (Compressor::new(), vec![0; PAGE]);
            group.bench_function(BenchmarkId::new("pack", name), |bencher| {
                bencher.iter(|| {
                    let lengths = content.chunks(PAGE).map(|page| compressor.compress(method, level, page, &mut room));
                    lengths.flatten().sum::<usize>()
                });
            });
            let (pages, mut decompressor) = (pack(method, level, &content), Decompressor::new());
            group.bench_function(BenchmarkId::new("unpack", name), |bencher| {
                bencher.iter(|| {
                    for (shrank, page) in &pages {
                        let method = if *shrank { method } else { Compression::None };
                        decompressor.decompress(method, page, &mut room).unwrap();
                    }
                });
            });
        }
        group.finish();
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10).warm_up_time(std::time::Duration::from_millis(300)).measurement_time(std::time::Duration::from_millis(1000));
    targets = compression
}
criterion_main!(benches);

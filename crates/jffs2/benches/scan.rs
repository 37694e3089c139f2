//! A full scan with all checksums, on one core: `cargo bench -p nandkit-jffs2 --bench scan`.
//!
//! 64 MiB of nodes with 4 KiB of data each, as Linux writes without compression. `mount` checks
//! headers, fixed parts and names as Linux does at a mount; `check` checks every byte.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use nandkit_flash::{Flash, FlashError, PageProgram, PageRead, Result};
use nandkit_jffs2::layout::ByteOrder;
use nandkit_jffs2::testing::encode::{DirentFields, InodeFields, Piece, dirent_node, inode_node};
use nandkit_jffs2::{Ino, Jffs2, MountOptions};
use nandkit_units::{BlockIndex, Clock, Context, Done, FlashGeometry, FlashKind, PageAddress, ReadInto};

const ERASE_SIZE: usize = 128 << 10;
const SIZE: usize = 64 << 20;

struct Bytes<'a>(&'a [u8], FlashGeometry);

impl Flash for Bytes<'_> {
    fn geometry(&self) -> &FlashGeometry {
        &self.1
    }

    fn read(&self, context: &Context, at: PageAddress, mut read: PageRead<'_>) -> Result<Done> {
        let start = at.block.index() * ERASE_SIZE + read.column as usize;
        let length = read.data.len();
        if let ReadInto::Bytes(into) = &mut read.data {
            into.copy_from_slice(&self.0[start..start + length]);
        }
        Ok(Done::immediately(context))
    }

    fn program(&mut self, _: &Context, at: PageAddress, _: PageProgram<'_>) -> Result<Done> {
        Err(FlashError::new(nandkit_flash::ErrorKind::ReadOnly, nandkit_flash::Operation::Program, at, "read only"))
    }

    fn erase(&mut self, _: &Context, block: BlockIndex) -> Result<Done> {
        Err(FlashError::new(
            nandkit_flash::ErrorKind::ReadOnly,
            nandkit_flash::Operation::Erase,
            block.page(0),
            "read only",
        ))
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

/// Files of 1 MiB, one page a node.
fn image() -> Vec<u8> {
    let order = ByteOrder::Little;
    let mut bytes = Vec::with_capacity(SIZE);
    let mut page = vec![0; 4096];
    let mut state = 88_172_645_463_325_252_u64;
    let (mut inode, mut offset) = (1, 1 << 20);
    while bytes.len() + ERASE_SIZE <= SIZE {
        let mut block = Vec::with_capacity(ERASE_SIZE);
        while block.len() + 4096 + 68 + 80 < ERASE_SIZE {
            if offset == 1 << 20 {
                (inode, offset) = (inode + 1, 0);
                let fields = DirentFields { parent: Ino(1), version: inode, inode: Ino(inode), made: 1, kind: 8 };
                dirent_node(order, &fields, format!("file-{inode:05}").as_bytes(), &mut block);
                block.resize(block.len().next_multiple_of(4), 0xFF);
            }
            for word in page.as_chunks_mut::<8>().0 {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                *word = state.to_le_bytes();
            }
            let size = offset + 4096;
            let fields = InodeFields {
                inode: Ino(inode),
                version: size / 4096,
                mode: 0o100_644,
                file_size: size,
                ..InodeFields::default()
            };
            inode_node(order, &fields, &Piece { offset, size: 4096, compression: 0, bytes: &page }, &mut block);
            offset = size;
        }
        block.resize(ERASE_SIZE, 0xFF);
        bytes.extend_from_slice(&block);
    }
    bytes
}

fn scan(criterion: &mut Criterion) {
    let bytes = image();
    let blocks = (bytes.len() / ERASE_SIZE) as u32;
    let geometry =
        FlashGeometry { kind: FlashKind::Nor, write_unit: 1, ..FlashGeometry::nand(ERASE_SIZE as u32, 0, 1, blocks) };
    let options = || MountOptions { read_only: true, use_summaries: false, ..MountOptions::default() };
    let mount = || Jffs2::mount(Bytes(&bytes, geometry), Clock::default(), options()).unwrap();
    let mut group = criterion.benchmark_group("scan");
    group.throughput(Throughput::Bytes(bytes.len() as u64)).sample_size(10);
    group.bench_function("mount", |bencher| bencher.iter(|| black_box(mount())));
    let volume = mount();
    assert!(volume.check(false).unwrap().findings.is_empty());
    group.bench_function("check", |bencher| bencher.iter(|| black_box(volume.check(false).unwrap())));
    group.finish();
}

criterion_group!(benches, scan);
criterion_main!(benches);

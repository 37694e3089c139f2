//! Images of any content are mounted or refused; what is mounted is walked, checked, repaired and asked for its past.

#![no_main]

use std::ops::ControlFlow;

use libfuzzer_sys::fuzz_target;
use nandkit_flash::{ErrorKind, Flash, FlashError, Operation, PageProgram, PageRead, Result};
use nandkit_jffs2::{Jffs2, MountOptions};
use nandkit_units::{BlockIndex, Clock, Context, Done, FlashGeometry, FlashKind, PageAddress, ReadInto};
use nandkit_vfs::{FileKind, FileSystem};

/// Bytes as flash: NOR, or NAND with blank OOB.
struct Image {
    bytes: Vec<u8>,
    geometry: FlashGeometry,
}

impl Image {
    fn start(&self, at: PageAddress) -> usize {
        (at.block.index() * self.geometry.pages_per_block as usize + at.page as usize) * self.geometry.page_size as usize
    }
}

impl Flash for Image {
    fn geometry(&self) -> &FlashGeometry {
        &self.geometry
    }

    fn read(&self, context: &Context, at: PageAddress, mut read: PageRead<'_>) -> Result<Done> {
        let start = self.start(at) + read.column as usize;
        let Some(bytes) = self.bytes.get(start..start + read.data.len()) else {
            return Err(FlashError::new(ErrorKind::Misuse, Operation::Read, at, "outside the device"));
        };
        if let ReadInto::Bytes(into) = &mut read.data {
            into.copy_from_slice(bytes);
        }
        read.oob.fill(0xFF);
        Ok(Done::immediately(context))
    }

    fn program(&mut self, context: &Context, at: PageAddress, program: PageProgram<'_>) -> Result<Done> {
        let start = self.start(at) + program.column as usize;
        program.data.copy_to(&mut self.bytes[start..start + program.data.len()]);
        Ok(Done::immediately(context))
    }

    fn erase(&mut self, context: &Context, block: BlockIndex) -> Result<Done> {
        let (start, size) = (self.start(block.page(0)), self.geometry.block_size() as usize);
        self.bytes[start..start + size].fill(0xFF);
        Ok(Done::immediately(context))
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

fn walk(volume: &Jffs2<Image>) {
    let mut next = vec![volume.root()];
    let mut steps = 0;
    while let Some(directory) = next.pop() {
        let mut found = Vec::new();
        let _ = volume.read_dir(directory, 0, &mut |entry| {
            found.push((entry.name.to_vec(), entry.inode));
            ControlFlow::Continue(())
        });
        for (name, inode) in found {
            steps += 1;
            assert_eq!(volume.lookup(directory, &name).unwrap(), inode, "what is listed is found");
            if let Ok(stat) = volume.stat(inode) {
                if stat.kind == FileKind::Directory && steps < 10_000 {
                    next.push(inode);
                }
                let mut bytes = vec![0; stat.size.min(1 << 16) as usize];
                let _ = volume.read(inode, 0, ReadInto::Bytes(&mut bytes));
            }
            let _ = volume.symlinks().unwrap().read_link(inode);
            for name in volume.xattrs().unwrap().xattr_names(inode).unwrap() {
                let _ = volume.xattrs().unwrap().xattr(inode, &name);
            }
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((choice, data)) = data.split_first() else { return };
    let nand = choice & 1 == 1;
    let mut bytes = data.to_vec();
    bytes.resize(bytes.len().next_multiple_of(4096).clamp(4096, 16 * 4096), 0xFF);
    let blocks = (bytes.len() / 4096) as u32;
    let geometry = if nand {
        FlashGeometry::nand(512, 16, 8, blocks)
    } else {
        FlashGeometry { kind: FlashKind::Nor, write_unit: 1, ..FlashGeometry::nand(4096, 0, 1, blocks) }
    };
    let options = || MountOptions { read_only: true, use_summaries: choice & 2 == 0, ..MountOptions::default() };
    let image = Image { bytes, geometry };
    let _ = nandkit_jffs2::probe::probe(&image);
    let Ok(volume) = Jffs2::mount(image, Clock::default(), options()) else { return };
    assert_eq!(volume.catalogue().recount(), Ok(()), "sums fit their nodes");
    walk(&volume);
    let report = volume.check(false).unwrap();
    for inode in 1..64 {
        for version in volume.versions(inode).unwrap_or_default() {
            let _ = volume.content_within(inode, version.version, 0..8192);
        }
    }
    volume.deleted().unwrap();
    let plan = volume.repair_plan(&report).unwrap();
    let mut output = Image { bytes: vec![0xFF; blocks as usize * 4096], geometry };
    volume.repair_to(&plan, &mut output).unwrap();
});

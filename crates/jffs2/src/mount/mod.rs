//! Mounting: from the content of blocks to a volume, by counting links, telling dead inodes from
//! living ones, and putting blocks on lists.
//!
//! The rules are those of Linux (fs/jffs2/build.c, scan.c, xattr.c), so that the tree is the same.

mod blocks;
mod collect;
mod links;
mod names;
mod strays;

use nandkit_cleaning::separation::Separator;
use nandkit_flash::Flash;
use nandkit_units::Clock;
use nandkit_vfs::{ErrorKind, FsError, Result};

use crate::byte_order;
use crate::damage::DamageList;
use crate::layout::{ByteOrder, Compatibility, OLD_MAGIC, ROOT};
use crate::medium::{Cleanmarker, Medium, Shape};
use crate::scan::{Condition, Scan};
use crate::volume::{Jffs2, MountOptions};
use crate::write::Writer;
use collect::Collected;

/// Blocks scanned before their content is processed.
const BATCH: u32 = 256;

impl<F: Flash> Jffs2<F> {
    /// Mounts a device. Damage is no error: see [`Jffs2::damage`]. A blank device is an empty
    /// volume.
    ///
    /// Time: with summaries, a read of each block's end, and of each name that would hide an older
    /// entry; otherwise of all blocks that are not blank. Memory: under 120 bytes per node.
    ///
    /// Errors: `InvalidArgument` if the device does not suit JFFS2; `Corrupt` if the device is not
    /// blank but has no node, or a node of a type that forbids mounting; `ReadOnly` if a node, or
    /// the old magic number, forbids mounting for writing; `Device`.
    pub fn mount(flash: F, clock: Clock, options: MountOptions) -> Result<Self> {
        let mut shape = Shape::of(flash.geometry()).map_err(|what| FsError::new(ErrorKind::InvalidArgument, what))?;
        shape.cleanmarker = options.cleanmarker.unwrap_or(shape.cleanmarker);
        if options.has_old_magic {
            shape.magic = OLD_MAGIC;
            if !options.read_only {
                let text = "nodes of the magic number 0x1984 are only read".to_owned();
                return Err(FsError::new(ErrorKind::ReadOnly, text));
            }
        }
        let streams = Separator::new(options.write.separation).regions();
        let mut medium = Medium::new(flash, clock, shape, options.order.unwrap_or_default(), usize::from(streams));
        if options.order.is_none() {
            medium.set_order(byte_order::of_first_node(&medium).map_err(device)?.unwrap_or(ByteOrder::Little));
        }
        let damage = DamageList::default();
        let mut collected = Collected::default();
        let scan = Scan { medium: &medium, summaries: options.use_summaries };
        for from in (0..shape.blocks).step_by(BATCH as usize) {
            let to = (from + BATCH).min(shape.blocks);
            let scans = scan.blocks(from, to, options.parallel).map_err(device)?;
            for (number, mut found) in (from..to).zip(scans) {
                if let Some((offset, unknown)) = found.forbids {
                    refuse(&shape, number, offset, unknown, options.read_only)?;
                }
                damage.extend(found.damage.drain(..));
                collected.add(&shape, number, found, medium.now());
            }
        }
        names::finish(&mut collected, &medium, &damage).map_err(device)?;
        if shape.cleanmarker == Cleanmarker::None && !options.just_erased && !options.read_only {
            let ready = collected.conditions.iter_mut().filter(|condition| **condition == Condition::Ready);
            ready.for_each(|condition| *condition = Condition::Blank);
        }
        let strays = links::count(&mut collected, &damage, &medium).map_err(device)?;
        let mut catalogue = blocks::file(&shape, &mut collected)?;
        let writer = match options.read_only {
            true => None,
            false => Some(Box::new(Writer::new(&options.write, &mut catalogue, shape.page_size, medium.now()))),
        };
        let may_lack_deleted = collected.may_lack_what_was_deleted();
        let Collected { inodes, xattrs, highest_inode, .. } = collected;
        let highest_inode = highest_inode.max(ROOT);
        Ok(Self { medium, catalogue, inodes, xattrs, highest_inode, damage, strays, may_lack_deleted, writer })
    }
}

fn device(error: nandkit_flash::FlashError) -> FsError {
    FsError::device("the flash, while mounting", error)
}

/// Refuses what the compatibility bits of an unknown node type forbid.
fn refuse(shape: &Shape, block: u32, offset: u32, unknown: u16, read_only: bool) -> Result<()> {
    let at = shape.address(nandkit_units::BlockIndex(block), offset);
    match Compatibility::of(unknown) {
        Compatibility::Incompatible => {
            let text = format!("the node at {at} is of the unknown type {unknown:#06x}, which forbids mounting");
            Err(FsError::new(ErrorKind::Corrupt, text))
        }
        Compatibility::ReadOnly if !read_only => {
            let text = format!("the node at {at} is of the unknown type {unknown:#06x}, which forbids writing");
            Err(FsError::new(ErrorKind::ReadOnly, text))
        }
        _ => Ok(()),
    }
}

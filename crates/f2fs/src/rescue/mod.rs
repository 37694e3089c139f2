//! Rescues files of a volume whose superblocks, checkpoints or tables are lost, from what node
//! blocks say of themselves.
//!
//! Every node ends in a footer with its number, its inode's number, its position in the file and
//! the version of the checkpoint before it (f2fs.md, "Nodes"), and every inode records its name and
//! its directory's number. A pass over all blocks finds all nodes (`scan`); the newest block of
//! each is used. Names come from the directories found, else from the inodes (`names`). Reasons to
//! doubt a file are reported with it (`doubt`).

mod claims;
mod deleted;
mod doubt;
mod fs;
mod inode;
mod names;
mod scan;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use nandkit_block::BlockDevice;
use nandkit_units::Clock;
use nandkit_vfs::{FileKind, InodeNumber, Result};

use crate::blocks::Blocks;
use crate::compressed::Clusters;
use crate::ids::{DataAddress, NodeId};
use crate::inode::Inode;
use crate::layout::inode::{advise, flag};
use claims::Claims;
pub use deleted::{DeletedContent, DeletedInode};
pub use doubt::Doubt;
use inode::{LOST_AND_FOUND, RescuedInode};
use names::Names;
use scan::Scan;
use view::View;

/// The name of the invented directory in the root, and the alternative if the volume uses that name
/// itself.
const FOUND_NAMES: [&[u8]; 2] = [b"lost+found", b"lost+found (rescued)"];

/// An inode of a rescued volume with the reasons to doubt it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RescuedFile {
    /// The number by which the file system shows it.
    pub inode: InodeNumber,
    /// The kind of file.
    pub kind: FileKind,
    /// Its size in bytes.
    pub size: u64,
    /// Why it may differ from the original; empty if nothing casts doubt on it.
    pub doubts: Vec<Doubt>,
}

/// A volume reconstructed from its nodes: a read-only [`nandkit_vfs::FileSystem`].
#[derive(Debug)]
pub struct RescuedVolume<D> {
    scan: Scan<D>,
    inodes: BTreeMap<NodeId, RescuedInode>,
    directories: BTreeMap<u64, BTreeMap<Vec<u8>, u64>>,
    /// The link count of each inode.
    links: BTreeMap<u64, u32>,
    clusters: Clusters,
}

impl<D: BlockDevice> RescuedVolume<D> {
    /// Finds all files of a volume on these devices, given in the order of its superblock. Writes
    /// nothing.
    ///
    /// Errors: `Corrupt` (no inode was found), `InvalidArgument` (the wrong number of devices),
    /// `Device`. Cost: reads everything once, and all nodes and directories a second time. Memory:
    /// about 200 bytes per node, besides the names.
    pub fn find(devices: Vec<D>, clock: Clock) -> Result<Self> {
        let scan = Scan::new(devices, clock)?;
        let mut inodes = decoded(&scan);
        let mut names = Names::default();
        let directories: Vec<NodeId> =
            inodes.iter().filter(|(_, inode)| inode.kind == FileKind::Directory).map(|(nid, _)| *nid).collect();
        for directory in directories {
            if inodes.get(&directory).is_some_and(|inode| !inode.doubts.contains(&Doubt::Deleted)) {
                names.list(&scan, directory, &inodes);
            }
        }
        names.give(&mut inodes);
        weigh(&scan, &names, &mut inodes);
        let root = u64::from(NodeId::ROOT.0);
        let [plain, other] = FOUND_NAMES;
        let mut listing = names.into_directories(plain);
        let of_volume = |name: &u64| *name != LOST_AND_FOUND;
        if listing.contains_key(&LOST_AND_FOUND)
            && let Some(names) = listing.get_mut(&root)
            && names.get(plain).is_some_and(of_volume)
        {
            names.insert(other.to_vec(), LOST_AND_FOUND);
        }
        let mut links = BTreeMap::new();
        listing.values().flat_map(BTreeMap::values).for_each(|child| *links.entry(*child).or_insert(0) += 1);
        Ok(Self { scan, inodes, directories: listing, links, clusters: Clusters::default() })
    }

    /// All inodes that were found, by number, with the reasons to doubt each.
    pub fn files(&self) -> impl Iterator<Item = RescuedFile> + '_ {
        self.inodes.iter().map(|(nid, inode)| RescuedFile {
            inode: InodeNumber(nid.0.into()),
            kind: inode.kind,
            size: inode.size,
            doubts: inode.doubts.iter().copied().collect(),
        })
    }

    /// Remarks about the whole volume, one sentence each.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.scan.superblock.is_none() {
            notes.push(
                "no superblock is left: the volume's geometry and features are inferred from its nodes".to_owned(),
            );
        }
        if !self.inodes.contains_key(&NodeId::ROOT) {
            notes.push("the root directory is lost: names come from the files themselves".to_owned());
        }
        if self.scan.unreadable > 0 {
            notes.push(format!("{} blocks cannot be read", self.scan.unreadable));
        }
        notes
    }

    /// Whether the root directory was found.
    pub fn has_root(&self) -> bool {
        self.inodes.contains_key(&NodeId::ROOT)
    }

    fn view(&self, nid: NodeId) -> View<'_, D> {
        View::new(&self.scan, nid)
    }
}

/// The inodes that can be decoded, without quota files, which no directory lists.
fn decoded<D: BlockDevice>(scan: &Scan<D>) -> BTreeMap<NodeId, RescuedInode> {
    let quotas: Vec<NodeId> = scan
        .superblock
        .iter()
        .flat_map(|superblock| superblock.quota_inodes)
        .filter_map(|field| NodeId(field.get()).some())
        .collect();
    let numbers = scan.nodes.iter().filter(|((nid, ino), _)| nid == ino && !quotas.contains(nid));
    let mut inodes = BTreeMap::new();
    for ((nid, _), record) in numbers {
        let view = View::new(scan, *nid);
        let Ok(inode) = view.inode() else { continue };
        if inode.head.name_length.get() == 0 && *nid != NodeId::ROOT && is_quota_file(&view, &inode) {
            continue;
        }
        let mut found = RescuedInode {
            kind: inode.kind,
            size: view.size(&inode),
            parent: NodeId(inode.head.parent.get()),
            name: inode.head.name().unwrap_or_default().to_vec(),
            has_hidden_name: inode.head.has_advise(advise::ENCRYPTED_NAME),
            doubts: BTreeSet::new(),
        };
        for (holds, doubt) in [
            (record.is_older || record.is_tied, Doubt::Older),
            (view.was_taken(*nid), Doubt::Replaced),
            (inode.head.links.get() == 0, Doubt::Deleted),
            (inode.is_encrypted() && inode.kind != FileKind::Directory, Doubt::Encrypted),
            (inode.head.size.get() > found.size, Doubt::Size),
            (inode.head.has_flag(flag::DEVICE_ALIAS), Doubt::Incomplete { bytes: found.size }),
            (crate::xattr::all(&view, &inode).map_or(true, |(_, fault)| fault.is_some()), Doubt::NoAttributes),
        ] {
            if holds {
                found.doubt(doubt);
            }
        }
        inodes.insert(*nid, found);
    }
    inodes
}

/// The magic numbers of quota files: user, group, project (f2fs.md, "Quota files").
const QUOTA_MAGICS: [u32; 3] = [0xD9C0_1F11, 0xD9C0_1927, 0xD9C0_3F14];

fn is_quota_file<D: BlockDevice>(view: &View<'_, D>, inode: &Inode) -> bool {
    let mut word = [0; 4];
    inode.kind == FileKind::Regular
        && crate::read::read(view, &Clusters::default(), inode, 0, &mut word).is_ok()
        && QUOTA_MAGICS.contains(&u32::from_le_bytes(word))
}

/// Notes for each inode what is lost and what something else uses as well.
fn weigh<D: BlockDevice>(scan: &Scan<D>, names: &Names, inodes: &mut BTreeMap<NodeId, RescuedInode>) {
    let is_sure = |nid: NodeId, inode: &RescuedInode| {
        let gone = [Doubt::Deleted, Doubt::Replaced, Doubt::Unlisted];
        nid == NodeId::ROOT || names.is_listed(nid) && !gone.iter().any(|doubt| inode.doubts.contains(doubt))
    };
    let sure: BTreeSet<NodeId> =
        inodes.iter().filter(|(nid, inode)| is_sure(**nid, inode)).map(|(nid, _)| *nid).collect();
    let mut claims = Claims::default();
    let nodes = scan.nodes.iter().filter(|((_, ino), _)| sure.contains(ino));
    nodes.for_each(|(_, record)| claims.node(record.at));
    for nid in inodes.keys() {
        each_block(scan, *nid, &mut |at| {
            claims.claim(at, sure.contains(nid));
        });
    }
    let size = scan.blocks.geometry().block_size() as u64;
    for (nid, inode) in inodes {
        let (mut shared, mut outside) = (0_u64, 0_u64);
        let told = each_block(scan, *nid, &mut |at| {
            shared += u64::from(claims.is_shared(at, sure.contains(nid)));
            outside += u64::from(scan.blocks.geometry().main(at).is_none() || !scan.blocks.reaches(at));
        });
        let lost = (told.lost + outside).saturating_mul(size).min(inode.size);
        if lost > 0 {
            inode.doubt(Doubt::Incomplete { bytes: lost });
        }
        if shared > 0 {
            inode.doubt(Doubt::Reused { bytes: shared.saturating_mul(size) });
        }
        if told.is_older {
            inode.doubt(Doubt::Older);
        }
    }
}

/// The result of a walk over a file's nodes.
#[derive(Debug, Default)]
struct Walked {
    /// Pages lost with their nodes.
    lost: u64,
    /// Whether one of the nodes may be outdated.
    is_older: bool,
}

/// Passes each block of a file's content to `sink`.
fn each_block<D: BlockDevice>(scan: &Scan<D>, nid: NodeId, sink: &mut dyn FnMut(crate::ids::BlockAddress)) -> Walked {
    let view = View::new(scan, nid);
    let Ok(inode) = view.inode() else { return Walked::default() };
    let has_blocks = matches!(inode.kind, FileKind::Regular | FileKind::Directory | FileKind::Symlink)
        && inode.inline_data().is_none()
        && inode.inline_entries().is_none()
        && !inode.head.has_flag(flag::DEVICE_ALIAS);
    if !has_blocks {
        return Walked::default();
    }
    let mut is_older = false;
    let lost = view.each_addresses(&inode, |_, addresses, count| {
        is_older |= view.record(addresses.nid()).is_some_and(|record| record.is_tied || record.is_older);
        for number in 0..count {
            if let DataAddress::At(at) = addresses.get(number) {
                sink(at);
            }
        }
        ControlFlow::Continue(())
    });
    Walked { lost, is_older }
}

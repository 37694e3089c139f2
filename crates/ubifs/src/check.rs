//! The check: every leaf is read, names lead to inodes, link counts agree with names, properties of
//! LEBs with the index.

use std::collections::BTreeMap;

use nandkit_vfs::check::{Finding, Findings, Report};
use nandkit_vfs::{ErrorKind, FileKind, InodeNumber, Result};

use crate::damage::{self, DamageKind};
use crate::files::is_name;
use crate::layout::{BLOCK_SIZE, INODE_ENCRYPTED, INODE_XATTR, Key, KeyType, ROOT};
use crate::mount::Ubifs;
use crate::node::Place;

/// What the leaves of a volume say of an inode.
#[derive(Clone, Copy, Debug, Default)]
struct InodeSummary {
    /// Names that lead to it.
    names: u32,
    /// Subdirectories in it.
    subdirectories: u32,
    /// Number of names that the inode itself has; `None` if it cannot be read.
    links: Option<u32>,
    is_directory: bool,
    /// Whether it holds the value of an extended attribute.
    is_xattr: bool,
    /// Whether an attribute's entry leads to it.
    is_used_xattr: bool,
    is_encrypted: bool,
}

/// A name, and where it leads.
struct NamedInode {
    directory: u32,
    inode: u32,
    name: Vec<u8>,
}

/// A check while leaves are read in the order of their keys: an inode comes before all that it
/// owns.
struct Check<'a> {
    volume: &'a Ubifs,
    inodes: BTreeMap<u32, InodeSummary>,
    names: Vec<NamedInode>,
    /// Inodes to which entries of attributes lead.
    xattrs: Vec<u32>,
    data_nodes: u64,
    findings: Findings,
}

impl Ubifs {
    /// Checks the volume. Errors: those of the device. Cost: reads every leaf.
    pub fn check(&self) -> Result<Report> {
        let (inodes, names) = (BTreeMap::new(), Vec::new());
        let (findings, xattrs) = (Findings::default(), Vec::new());
        let mut check = Check { volume: self, inodes, names, xattrs, data_nodes: 0, findings };
        check.findings.extend(self.damage.iter().cloned());
        check.leaves()?;
        self.check_properties(&mut check.findings)?;
        for name in std::mem::take(&mut check.names) {
            check.count_name(&name);
        }
        for inode in std::mem::take(&mut check.xattrs) {
            check.inodes.get_mut(&inode).into_iter().for_each(|inode| inode.is_used_xattr = true);
        }
        let (mut files, mut directories) = (0, 0);
        for (number, inode) in &check.inodes {
            files += u64::from(!inode.is_directory && !inode.is_xattr && inode.links.is_some());
            directories += u64::from(inode.is_directory);
            check_links(*number, inode, &mut check.findings);
        }
        let counts = vec![
            ("files", files),
            ("directories", directories),
            ("data_nodes", check.data_nodes),
            ("replayed_nodes", self.facts().replayed),
        ];
        Ok(Report { findings: check.findings.into_list(), counts, ..Report::default() })
    }
}

impl Check<'_> {
    /// Reads all leaves.
    fn leaves(&mut self) -> Result<()> {
        let volume = self.volume;
        let mut ownerless = None;
        for (key, place) in volume.tree.all() {
            match self.leaf(key, place) {
                Ok(()) => {}
                Err(error) if error.kind == ErrorKind::Corrupt => {
                    let finding = damage::at(DamageKind::Leaf, &volume.lebs, place, &error.detail);
                    self.findings.add(finding.of(InodeNumber(key.inode.into())));
                }
                Err(error) => return Err(error),
            }
            if !self.inodes.contains_key(&key.inode) && ownerless != Some(key.inode) {
                ownerless = Some(key.inode);
                let detail = format!("data, names or attributes of inode {}, which is not there", key.inode);
                self.findings.add(Finding::new(DamageKind::Ownerless, detail));
            }
        }
        Ok(())
    }

    /// Reads a leaf.
    fn leaf(&mut self, key: Key, place: Place) -> Result<()> {
        let volume = self.volume;
        match key.key_type() {
            Some(KeyType::Inode) => {
                let summary = self.inodes.entry(key.inode).or_default();
                let (node, _) = volume.inode_at(key.inode, place)?;
                summary.links = Some(node.links.get());
                summary.is_directory = FileKind::of_mode(node.mode.get()) == Some(FileKind::Directory);
                summary.is_xattr = node.flags.get() & INODE_XATTR != 0;
                summary.is_encrypted = node.flags.get() & INODE_ENCRYPTED != 0;
            }
            Some(KeyType::Data) => {
                self.data_nodes += 1;
                // Whether encrypted data can be decompressed is unknown without their key.
                if self.inodes.get(&key.inode).is_some_and(|inode| inode.is_encrypted) {
                    return volume.data_at(key, place).map(drop);
                }
                volume.block(key.inode, key.low().into(), &mut [0; BLOCK_SIZE as usize])?;
            }
            Some(KeyType::Xentry) => {
                let entry = volume.entry(key, place, true)?;
                self.xattrs.push(entry.inode);
            }
            Some(KeyType::Dentry) => {
                let entry = volume.entry(key, place, false)?;
                let is_encrypted = self.inodes.get(&key.inode).is_some_and(|inode| inode.is_encrypted);
                if !is_encrypted && !is_name(&entry.name) {
                    let detail = format!("'{}' in inode {}", entry.name.escape_ascii(), key.inode);
                    self.findings.add(damage::at(DamageKind::Name, &volume.lebs, place, &detail));
                }
                self.names.push(NamedInode { directory: key.inode, inode: entry.inode, name: entry.name });
            }
            None => {
                let detail = format!("a key of inode {} that is of no type", key.inode);
                self.findings.add(damage::at(DamageKind::Index, &volume.lebs, place, &detail));
            }
        }
        Ok(())
    }

    /// Counts a name; tells one that leads nowhere.
    fn count_name(&mut self, named: &NamedInode) {
        let NamedInode { directory, inode, name } = named;
        let Some(summary) = self.inodes.get_mut(inode) else {
            let name = name.escape_ascii();
            let detail = format!("'{name}' in directory {directory} leads to inode {inode}, which is not there");
            let finding = Finding::new(DamageKind::Dangling, detail);
            return self.findings.add(finding.of(InodeNumber((*directory).into())));
        };
        summary.names += 1;
        if summary.is_directory
            && let Some(directory) = self.inodes.get_mut(directory)
        {
            directory.subdirectories += 1;
        }
    }
}

/// Tells an inode without a name, and a number of names that is wrong.
fn check_links(number: u32, summary: &InodeSummary, findings: &mut Findings) {
    let Some(links) = summary.links.filter(|_| !summary.is_used_xattr) else { return };
    let inode = InodeNumber(number.into());
    if summary.is_xattr {
        // Linux leaves it when it removes a file that was open at a power cut.
        let detail = format!("inode {number} holds the value of an attribute that no file has");
        return findings.add(Finding::new(DamageKind::UnusedAttribute, detail).of(inode));
    }
    let is_root = number == ROOT;
    if summary.names == 0 && !is_root {
        let finding = Finding::new(DamageKind::Orphan, format!("inode {number} has no name")).of(inode);
        // Removed while it was open: Linux removes it at the next mount.
        return findings.add(if links == 0 { finding.harmless() } else { finding });
    }
    if summary.is_directory && summary.names > u32::from(!is_root) {
        let detail = format!("directory {number} has {} names; expected {}", summary.names, u32::from(!is_root));
        findings.add(Finding::new(DamageKind::Links, detail).of(inode));
    }
    let expected = if summary.is_directory { 2 + summary.subdirectories } else { summary.names };
    if links != expected {
        let detail = format!("inode {number} counts {links} links; there are {expected}");
        findings.add(Finding::new(DamageKind::Links, detail).of(inode));
    }
}

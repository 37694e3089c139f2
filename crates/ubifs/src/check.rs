//! The check: every leaf is read, names lead to inodes, link counts agree with names.

use std::collections::BTreeMap;

use nandkit_vfs::check::{Finding, Findings, Report};
use nandkit_vfs::{ErrorKind, InodeNumber, Result};

use crate::damage::{self, DamageKind};
use crate::files::is_name;
use crate::layout::{BLOCK_SIZE, Key, KeyType, ROOT};
use crate::lebs::Lebs;
use crate::mount::Ubifs;
use crate::node::Place;

/// What the leaves of a volume say of an inode.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// Names that lead to it.
    names: u32,
    /// Subdirectories in it.
    subdirectories: u32,
    /// Number of names that the inode itself has; `None` if it cannot be read.
    links: Option<u32>,
    is_directory: bool,
    is_xattr: bool,
}

impl<L: Lebs> Ubifs<L> {
    /// Checks the volume. Errors: those of the device. Cost: reads every leaf.
    pub fn check(&self) -> Result<Report> {
        let mut findings = Findings::default();
        findings.extend(self.damage.iter().cloned());
        let (mut inodes, mut entries) = (BTreeMap::new(), Vec::new());
        let (mut files, mut directories, mut data_nodes) = (0, 0, 0);
        for (key, places) in self.tree.all() {
            for place in places {
                match key.key_type() {
                    Some(KeyType::Data) => data_nodes += 1,
                    None => {
                        let detail = format!("a key of inode {} that is of no type", key.inode);
                        findings.add(damage::at(DamageKind::Index, &self.lebs, *place, &detail));
                        continue;
                    }
                    Some(_) => {}
                }
                if let Err(error) = self.check_leaf(key, *place, &mut inodes, &mut entries, &mut findings) {
                    if error.kind != ErrorKind::Corrupt {
                        return Err(error);
                    }
                    let finding = damage::at(DamageKind::Leaf, &self.lebs, *place, &error.detail);
                    findings.add(finding.of(InodeNumber(key.inode.into())));
                }
            }
        }
        for (parent, inode, name) in entries {
            name_leads(&mut inodes, parent, inode, &name, &mut findings);
        }
        for (number, seen) in &inodes {
            files += u64::from(!seen.is_directory && !seen.is_xattr);
            directories += u64::from(seen.is_directory);
            check_links(*number, seen, &mut findings);
        }
        let counts = vec![
            ("files", files),
            ("directories", directories),
            ("data_nodes", data_nodes),
            ("replayed_nodes", self.facts().replayed),
        ];
        Ok(Report { findings: findings.into_list(), counts, ..Report::default() })
    }

    /// Reads a leaf.
    fn check_leaf(
        &self,
        key: Key,
        place: Place,
        inodes: &mut BTreeMap<u32, Seen>,
        entries: &mut Vec<(u32, u32, Vec<u8>)>,
        findings: &mut Findings,
    ) -> Result<()> {
        match key.key_type() {
            Some(KeyType::Inode) => {
                let seen = inodes.entry(key.inode).or_default();
                let (node, _) = self.inode_at(key.inode, place)?;
                seen.links = Some(node.links.get());
                seen.is_directory = node.mode.get() & 0o170_000 == 0o040_000;
            }
            Some(KeyType::Data) => {
                self.block(key.inode, key.low().into(), &mut [0; BLOCK_SIZE as usize])?;
            }
            Some(kind @ (KeyType::Dentry | KeyType::Xentry)) => {
                let is_xattr = kind == KeyType::Xentry;
                let entry = self.entry(key, place, is_xattr)?;
                if is_xattr {
                    inodes.entry(entry.inode).or_default().is_xattr = true;
                } else {
                    if !is_name(&entry.name) {
                        let detail = format!("'{}' in inode {}", entry.name.escape_ascii(), key.inode);
                        findings.add(damage::at(DamageKind::Name, &self.lebs, place, &detail));
                    }
                    entries.push((key.inode, entry.inode, entry.name));
                }
            }
            None => {}
        }
        Ok(())
    }
}

/// Counts a name; tells one that leads nowhere.
fn name_leads(inodes: &mut BTreeMap<u32, Seen>, parent: u32, inode: u32, name: &[u8], findings: &mut Findings) {
    let Some(seen) = inodes.get_mut(&inode) else {
        let detail =
            format!("'{}' in directory {parent} leads to inode {inode}, which is not there", name.escape_ascii());
        findings.add(Finding::new(DamageKind::Dangling, detail).of(InodeNumber(parent.into())));
        return;
    };
    seen.names += 1;
    if seen.is_directory
        && let Some(parent) = inodes.get_mut(&parent)
    {
        parent.subdirectories += 1;
    }
}

/// Tells an inode without a name, and a number of names that is wrong.
fn check_links(number: u32, seen: &Seen, findings: &mut Findings) {
    let Some(links) = seen.links else { return };
    if seen.is_xattr {
        return;
    }
    let inode = InodeNumber(number.into());
    if seen.names == 0 && number != ROOT {
        let detail = format!("inode {number} has no name");
        findings.add(Finding::new(DamageKind::Orphan, detail).of(inode));
        return;
    }
    let expected = if seen.is_directory { 2 + seen.subdirectories } else { seen.names };
    if links != expected {
        let detail = format!("inode {number} counts {links} links; there are {expected}");
        findings.add(Finding::new(DamageKind::Links, detail).of(inode));
    }
}

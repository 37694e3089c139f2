//! Extended attributes of an inode: inline, and in a separate node.

use nandkit_vfs::acl::{self, AclEntry, AclSubject};
use nandkit_vfs::{ErrorKind, FsError, Result, XattrPair};

use crate::blocks::{Blocks, Nodes};
use crate::findings::{Defect, FindingKind};
use crate::ids::NodeId;
use crate::inode::Inode;
use crate::layout::node::FOOTER_BYTES;
use crate::layout::xattr::{Attribute, XattrFault, attributes, index};
use crate::layout::{Footer, NodeOffset};

/// The version number of access control lists in F2FS (acl.h).
const ACL_VERSION: u32 = 1;

/// The attribute area of an inode: its inline words followed by those of its node. Errors:
/// `Corrupt`, `Device`.
pub fn area(volume: &(impl Blocks + Nodes), inode: &Inode) -> Result<Vec<u8>> {
    let mut area = inode.inline_xattrs().to_vec();
    let Some(nid) = NodeId(inode.head.xattr_nid.get()).some() else { return Ok(area) };
    let block = volume.node(nid)?;
    let footer = Footer::of_block(&block);
    if !footer.is_some_and(|footer| footer.ino() == inode.nid && footer.offset() == NodeOffset::XATTR) {
        let detail = format!("the footer of {nid} does not claim this inode's extended attributes");
        return Err(Defect::new(FindingKind::Xattr, detail).of(inode.nid).into_error());
    }
    area.extend_from_slice(block.get(..block.len().saturating_sub(FOOTER_BYTES)).unwrap_or_default());
    Ok(area)
}

/// The full name that programs see; `None` for an attribute internal to the file system.
fn full_name(attribute: &Attribute<'_>) -> Option<Vec<u8>> {
    let prefix: &[u8] = match attribute.index {
        index::USER => b"user.",
        index::TRUSTED => b"trusted.",
        index::SECURITY => b"security.",
        index::ACL_ACCESS => return Some(acl::ACCESS.to_vec()),
        index::ACL_DEFAULT => return Some(acl::DEFAULT.to_vec()),
        _ => return None,
    };
    Some([prefix, attribute.name].concat())
}

/// The error for an attribute area that cannot be read further.
pub(crate) fn damaged(ino: NodeId, fault: XattrFault) -> FsError {
    let detail = match fault {
        XattrFault::Magic(magic) => format!("extended attributes begin with {magic:#010x}; expected 0xf2f52011"),
        XattrFault::Overrun(at) => format!("the extended attribute at byte {at} extends past its area"),
    };
    Defect::new(FindingKind::Xattr, detail).of(ino).into_error()
}

/// All attributes with their values. If the area is damaged, those before the damage and an error
/// for the rest.
pub fn all(volume: &(impl Blocks + Nodes), inode: &Inode) -> Result<(Vec<XattrPair>, Option<FsError>)> {
    let area = area(volume, inode)?;
    let mut pairs = Vec::new();
    for attribute in attributes(&area) {
        match attribute {
            Ok(attribute) => {
                let Some(name) = full_name(&attribute) else { continue };
                let value = value_of(inode, &attribute);
                pairs.push((name, value));
            }
            Err(fault) => return Ok((pairs, Some(damaged(inode.nid, fault)))),
        }
    }
    Ok((pairs, None))
}

/// The value of one attribute. Errors: `NoAttribute`, `Corrupt`, `Device`.
pub fn one(volume: &(impl Blocks + Nodes), inode: &Inode, name: &[u8]) -> Result<Vec<u8>> {
    let (pairs, fault) = all(volume, inode)?;
    match (pairs.into_iter().find(|(found, _)| found == name), fault) {
        (Some((_, value)), _) => value,
        (None, Some(fault)) => Err(fault),
        (None, None) => {
            let shown = String::from_utf8_lossy(name);
            Err(FsError::new(ErrorKind::NoAttribute, format!("inode {} has no attribute {shown}", inode.nid.0)))
        }
    }
}

fn value_of(inode: &Inode, attribute: &Attribute<'_>) -> Result<Vec<u8>> {
    if !matches!(attribute.index, index::ACL_ACCESS | index::ACL_DEFAULT) {
        return Ok(attribute.value.to_vec());
    }
    acl_from_stored(attribute.value).map(|entries| acl::encode(&entries)).ok_or_else(|| {
        let detail = format!("an invalid access control list of {} bytes", attribute.value.len());
        Defect::new(FindingKind::Xattr, detail).of(inode.nid).into_error()
    })
}

/// Decodes an access control list (acl.c; f2fs.md, "Access control lists"); `None` if it is not
/// valid.
pub fn acl_from_stored(stored: &[u8]) -> Option<Vec<AclEntry>> {
    let (version, mut rest) = stored.split_first_chunk::<4>()?;
    if u32::from_le_bytes(*version) != ACL_VERSION {
        return None;
    }
    let mut entries = Vec::new();
    while !rest.is_empty() {
        let ([t0, t1, p0, p1], behind) = rest.split_first_chunk::<4>()?;
        rest = behind;
        let mut id = || {
            let (id, behind) = rest.split_first_chunk::<4>()?;
            rest = behind;
            Some(u32::from_le_bytes(*id))
        };
        let subject = match u16::from_le_bytes([*t0, *t1]) {
            0x01 => AclSubject::Owner,
            0x02 => AclSubject::User(id()?),
            0x04 => AclSubject::OwningGroup,
            0x08 => AclSubject::Group(id()?),
            0x10 => AclSubject::Mask,
            0x20 => AclSubject::Others,
            _ => return None,
        };
        let permissions = u8::try_from(u16::from_le_bytes([*p0, *p1])).ok()?;
        entries.push(AclEntry { subject, permissions });
    }
    Some(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_lists_have_ids_only_where_they_count() {
        let stored = [1, 0, 0, 0, 1, 0, 6, 0, 2, 0, 4, 0, 0xE8, 3, 0, 0, 4, 0, 4, 0, 0x10, 0, 4, 0, 0x20, 0, 0, 0];
        let entries = acl_from_stored(&stored).unwrap();
        let expected = AclEntry { subject: AclSubject::User(1000), permissions: 4 };
        assert_eq!((entries.len(), entries[1]), (5, expected));
        acl::check(&entries).unwrap();
        for bad in [&stored[..3], &stored[..6], &stored[..14], &[2, 0, 0, 0]] {
            assert_eq!(acl_from_stored(bad), None);
        }
    }
}

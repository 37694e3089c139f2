//! Derives an identity for a volume without a given one.

use nandkit_vfs::source::SourceNode;
use sha2::{Digest, Sha256};

/// A UUID derived from what is known of a tree without reading content: names, kinds, owners, sizes
/// and times, and the volume's size and label. The same tree and options give the same UUID; it is
/// of version 8 of RFC 9562, which is free for such uses.
pub fn uuid_of(nodes: &[SourceNode], size: u64, label: &str) -> [u8; 16] {
    let mut hash = Sha256::new();
    let mut put = |bytes: &[u8]| {
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    };
    put(label.as_bytes());
    put(&size.to_le_bytes());
    for node in nodes {
        put(&node.name);
        put(&node.target);
        let link = node.hard_link_of.map_or(u64::MAX, |first| first as u64);
        let numbers = [node.parent as u64, node.kind as u64, node.mode.into(), node.uid.into(), node.gid.into()];
        let numbers = numbers.into_iter().chain([node.device, node.size, node.modified.0 as u64, link]);
        put(&numbers.flat_map(u64::to_le_bytes).collect::<Vec<_>>());
        for (name, value) in &node.xattrs {
            put(name);
            put(value);
        }
    }
    let mut uuid = [0; 16];
    uuid.iter_mut().zip(hash.finalize()).for_each(|(to, from)| *to = from);
    uuid[6] = uuid[6] & 0x0F | 0x80;
    uuid[8] = uuid[8] & 0x3F | 0x80;
    uuid
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandkit_vfs::FileKind;

    #[test]
    fn what_differs_has_another_identity() {
        let root = SourceNode::new(FileKind::Directory, 0o755);
        let plain = uuid_of(std::slice::from_ref(&root), 1, "");
        assert_eq!((plain[6] >> 4, plain[8] >> 6), (8, 2));
        assert_eq!(plain, uuid_of(std::slice::from_ref(&root), 1, ""));
        for other in [
            uuid_of(std::slice::from_ref(&root), 2, ""),
            uuid_of(std::slice::from_ref(&root), 1, "x"),
            uuid_of(&[root.clone().owned_by(1, 0)], 1, ""),
            uuid_of(&[root.clone(), root], 1, ""),
        ] {
            assert_ne!(plain, other);
        }
    }
}

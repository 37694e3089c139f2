//! POSIX access control lists: conversion between the attribute values `system.posix_acl_access`
//! and `system.posix_acl_default` as Linux passes them to programs, and the shorter form that JFFS2
//! stores.
//!
//! Sources: include/uapi/linux/posix_acl_xattr.h (version 2, entries of tag, permissions and
//! number, always little-endian); fs/jffs2/acl.h (version 1, entries without the number if the tag
//! needs none, in the volume's byte order).

use crate::layout::ByteOrder;

/// Version of the external form.
const OUTSIDE_VERSION: u32 = 2;
/// Version of the stored form.
const STORED_VERSION: u32 = 1;
/// The number in entries that need none.
const NO_NUMBER: u32 = u32::MAX;

const USER_OBJECT: u16 = 0x01;
const USER: u16 = 0x02;
const GROUP_OBJECT: u16 = 0x04;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;

const fn has_number(tag: u16) -> Option<bool> {
    match tag {
        USER | GROUP => Some(true),
        USER_OBJECT | GROUP_OBJECT | MASK | OTHER => Some(false),
        _ => None,
    }
}

fn u16_at(order: ByteOrder, bytes: &[u8], at: usize) -> Option<u16> {
    Some(order.u16(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(order: ByteOrder, bytes: &[u8], at: usize) -> Option<u32> {
    Some(order.u32(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Converts the external form to the stored one; `None` if it is malformed.
pub fn to_stored(order: ByteOrder, outside: &[u8]) -> Option<Vec<u8>> {
    let little = ByteOrder::Little;
    if u32_at(little, outside, 0)? != OUTSIDE_VERSION || outside.len() % 8 != 4 {
        return None;
    }
    let mut stored = order.bytes32(STORED_VERSION).to_vec();
    for entry in outside[4..].chunks_exact(8) {
        let tag = u16_at(little, entry, 0)?;
        stored.extend_from_slice(&order.bytes16(tag));
        stored.extend_from_slice(&order.bytes16(u16_at(little, entry, 2)?));
        if has_number(tag)? {
            stored.extend_from_slice(&order.bytes32(u32_at(little, entry, 4)?));
        }
    }
    Some(stored)
}

/// Converts the stored form to the external one; `None` if it is malformed.
pub fn from_stored(order: ByteOrder, stored: &[u8]) -> Option<Vec<u8>> {
    if u32_at(order, stored, 0)? != STORED_VERSION {
        return None;
    }
    let mut outside = OUTSIDE_VERSION.to_le_bytes().to_vec();
    let mut at = 4;
    while at < stored.len() {
        let (tag, permissions) = (u16_at(order, stored, at)?, u16_at(order, stored, at + 2)?);
        at += 4;
        let number = if has_number(tag)? {
            at += 4;
            u32_at(order, stored, at - 4)?
        } else {
            NO_NUMBER
        };
        outside.extend_from_slice(&tag.to_le_bytes());
        outside.extend_from_slice(&permissions.to_le_bytes());
        outside.extend_from_slice(&number.to_le_bytes());
    }
    Some(outside)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// user::rw-, user:1000:r--, group::r--, mask::r--, other::---
    fn outside() -> Vec<u8> {
        let entries = [(1_u16, 6_u16, u32::MAX), (2, 4, 1000), (4, 4, u32::MAX), (16, 4, u32::MAX), (32, 0, u32::MAX)];
        let mut bytes = 2_u32.to_le_bytes().to_vec();
        for (tag, permissions, number) in entries {
            bytes.extend(tag.to_le_bytes().into_iter().chain(permissions.to_le_bytes()).chain(number.to_le_bytes()));
        }
        bytes
    }

    #[test]
    fn both_forms_hold_the_same() {
        for order in ByteOrder::ALL {
            let stored = to_stored(order, &outside()).unwrap();
            assert_eq!(stored.len(), 4 + 4 * 4 + 8);
            assert_eq!(from_stored(order, &stored).unwrap(), outside());
        }
        assert_eq!(to_stored(ByteOrder::Big, &outside()).unwrap()[..8], [0, 0, 0, 1, 0, 1, 0, 6]);
    }

    #[test]
    fn what_is_not_well_formed_is_refused() {
        let good = to_stored(ByteOrder::Little, &outside()).unwrap();
        for bytes in [&[][..], &good[..3], &good[..good.len() - 1], &[2, 0, 0, 0], &[1, 0, 0, 0, 3, 0, 0, 0]] {
            assert_eq!(from_stored(ByteOrder::Little, bytes), None, "{bytes:?}");
        }
        for bytes in [&[][..], &outside()[..11], &[1, 0, 0, 0]] {
            assert_eq!(to_stored(ByteOrder::Little, bytes), None, "{bytes:?}");
        }
    }
}

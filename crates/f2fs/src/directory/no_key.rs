//! Encrypted names without the key: shown as Linux shows them (fs/crypto/fname.c,
//! `fscrypt_fname_disk_to_usr`).
//!
//! The shown name is unpadded base64url of the entry's hash (two words, the second zero), the first
//! 149 bytes of the ciphertext and, if it is longer, the SHA-256 of the rest.

use sha2::{Digest, Sha256};

/// Bytes of ciphertext that are shown unhashed.
const SHOWN: usize = 149;

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The shown name of an encrypted entry.
pub fn shown_name(hash: u32, ciphertext: &[u8]) -> Vec<u8> {
    let mut bytes = hash.to_le_bytes().to_vec();
    bytes.extend_from_slice(&[0; 4]);
    match ciphertext.split_at_checked(SHOWN) {
        Some((first, rest)) if !rest.is_empty() => {
            bytes.extend_from_slice(first);
            bytes.extend_from_slice(&Sha256::digest(rest));
        }
        _ => bytes.extend_from_slice(ciphertext),
    }
    base64url(&bytes)
}

fn base64url(bytes: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let bits = (0..3).fold(0_u32, |bits, at| bits << 8 | u32::from(chunk.get(at).copied().unwrap_or(0)));
        for digit in 0..=chunk.len() {
            let value = bits >> (18 - 6 * digit) & 63;
            text.extend(DIGITS.get(value as usize));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_of_the_letters_of_names_and_no_longer_than_one() {
        assert_eq!(base64url(b"light work."), b"bGlnaHQgd29yay4");
        assert_eq!(base64url(&[0xFB, 0xFF]), b"-_8");
        assert_eq!(shown_name(1, &[]), b"AQAAAAAAAAA");
        let (long, other) = (shown_name(7, &[1; 255]), shown_name(7, &[1; 254]));
        assert_eq!(long.len(), 252);
        assert_ne!(long, other);
        assert!(shown_name(0xFFFF_FFFF, &[0xFF; 149]).iter().all(|byte| DIGITS.contains(byte)));
    }
}

//! Symbolic links that lead out of a tree.

/// Whether a symbolic link in a directory `levels` below the root can lead above the root. Other
/// links on the way are not considered.
pub fn leads_out(target: &[u8], levels: usize) -> bool {
    if target.starts_with(b"/") {
        return true;
    }
    let mut level = Some(levels);
    for name in target.split(|byte| *byte == b'/') {
        level = match name {
            b"" | b"." => level,
            b".." => level.and_then(|level| level.checked_sub(1)),
            _ => level.map(|level| level + 1),
        };
    }
    level.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_out_of_the_tree_are_known_by_their_text() {
        let cases: [(&[u8], usize, bool); 7] = [
            (b"x", 0, false),
            (b"/etc/passwd", 3, true),
            (b"..", 0, true),
            (b"../x", 1, false),
            (b"../../x", 1, true),
            (b"a/../../x", 0, true),
            (b"a//./../b", 0, false),
        ];
        for (target, levels, expected) in cases {
            assert_eq!(leads_out(target, levels), expected, "{target:?} at {levels}");
        }
    }
}

//! Counts the pages of files and the nodes that point to them.

use std::ops::Range;

use crate::encode::node::Direct;

/// The pages and nodes of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeCount {
    /// Pages.
    pub pages: u64,
    /// Direct nodes.
    pub direct: u64,
    /// Indirect and double indirect nodes.
    pub indirect: u64,
}

/// The direct nodes for runs of pages, ascending, by their number among all that a file can have;
/// the first `in_inode` pages are in the inode.
pub fn direct_nodes(runs: &[Range<u32>], in_inode: u32, per_node: u32) -> impl Iterator<Item = u32> + '_ {
    let mut last = None;
    let spans = runs.iter().filter(move |run| run.end > in_inode && run.start < run.end);
    let numbers = spans.flat_map(move |run| {
        let start = run.start.saturating_sub(in_inode) / per_node;
        start..(run.end - 1 - in_inode) / per_node + 1
    });
    numbers.filter(move |number| last.replace(*number) != Some(*number))
}

/// Counts pages and nodes.
pub fn count(runs: &[Range<u32>], in_inode: u32, per_node: u32) -> NodeCount {
    let mut count =
        NodeCount { pages: runs.iter().map(|run| u64::from(run.end - run.start)).sum(), ..Default::default() };
    let (mut indirect, mut has_double) = (None, false);
    for number in direct_nodes(runs, in_inode, per_node) {
        count.direct += 1;
        let above = indirect_of(number, per_node);
        if above.is_some() && above != indirect {
            count.indirect += 1;
            indirect = above;
        }
        if !has_double && matches!(above, Some(Indirect::Double(_))) {
            count.indirect += 1;
            has_double = true;
        }
    }
    count
}

/// The position of an indirect node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Indirect {
    /// The inode's first or second indirect node.
    Inode(u64),
    /// One of those below the double indirect node.
    Double(u64),
}

/// The indirect node above a direct one; `None` if that is the inode itself.
pub fn indirect_of(direct: u32, per_node: u32) -> Option<Indirect> {
    match Direct::of(direct.into(), per_node.into())? {
        Direct::Inode(_) => None,
        Direct::Indirect { slot, .. } => Some(Indirect::Inode(slot)),
        Direct::Double { slot, .. } => Some(Indirect::Double(slot)),
    }
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init, reason = "files of one run of pages are meant")]
mod tests {
    use super::*;

    fn one(run: Range<u32>) -> [Range<u32>; 1] {
        [run]
    }

    #[test]
    fn nodes_are_counted_as_far_as_there_are_pages() {
        let n = 1018;
        let counted = |runs: &[Range<u32>]| {
            let count = count(runs, 873, n);
            (count.pages, count.direct, count.indirect)
        };
        assert_eq!(counted(&one(0..873)), (873, 0, 0));
        assert_eq!(counted(&one(0..874)), (874, 1, 0));
        assert_eq!(counted(&one(0..873 + 2 * n)), (873 + 2036, 2, 0));
        assert_eq!(counted(&one(0..874 + 2 * n)), (874 + 2036, 3, 1));
        // A hole over most of the first indirect node, then the second, then the double indirect
        // one.
        assert_eq!(counted(&[3..4, 900..901, 902..903]), (3, 1, 0));
        let first_indirect = 873 + 2 * n;
        let (second, double) = (first_indirect + n * n, first_indirect + 2 * n * n);
        assert_eq!(counted(&[first_indirect..first_indirect + 1, second..second + 1, double..double + 1]), (3, 3, 4));
        assert_eq!(counted(&one(double + n * n - 1..double + n * n + 1)), (2, 2, 3));
    }
}

//! The clusters of a file in order, stored as runs: random access without walking the FAT.

/// A run of `count` clusters from `cluster` on; the first one is number `first` of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    first: u32,
    cluster: u32,
    count: u32,
}

/// A chain of clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    runs: Vec<Run>,
}

impl Chain {
    /// An empty chain.
    pub const fn new() -> Self {
        Self { runs: Vec::new() }
    }

    /// The number of clusters.
    pub fn len(&self) -> u32 {
        self.runs.last().map_or(0, |run| run.first + run.count)
    }

    /// The last cluster.
    pub fn last(&self) -> Option<u32> {
        self.runs.last().map(|run| run.cluster + run.count - 1)
    }

    /// Cluster number `index` of the file, and the length of the contiguous run from it on.
    pub fn get(&self, index: u32) -> Option<(u32, u32)> {
        let at = self.runs.partition_point(|run| run.first <= index).checked_sub(1)?;
        let run = self.runs.get(at)?;
        let within = index - run.first;
        (within < run.count).then(|| (run.cluster + within, run.count - within))
    }

    /// Appends a cluster.
    pub fn push(&mut self, cluster: u32) {
        match self.runs.last_mut() {
            Some(run) if run.cluster.checked_add(run.count) == Some(cluster) => run.count += 1,
            _ => self.runs.push(Run { first: self.len(), cluster, count: 1 }),
        }
    }

    /// Keeps the first `count` clusters and returns the others, in order.
    pub fn split_off(&mut self, count: u32) -> Vec<u32> {
        let mut tail = Vec::new();
        while let Some(run) = self.runs.last_mut() {
            if run.first + run.count <= count {
                break;
            }
            let keep = count.saturating_sub(run.first);
            tail.extend((run.cluster + keep..run.cluster + run.count).rev());
            run.count = keep;
            if keep == 0 {
                self.runs.pop();
            }
        }
        tail.reverse();
        tail
    }

    /// All clusters in order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.runs.iter().flat_map(|run| run.cluster..run.cluster + run.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_join_split_and_are_found() {
        let clusters = [5, 6, 7, 20, 3, 4, 9];
        let mut chain = Chain::default();
        clusters.iter().for_each(|&cluster| chain.push(cluster));
        assert_eq!(chain.runs.len(), 4);
        assert_eq!(chain.iter().collect::<Vec<_>>(), clusters);
        assert_eq!(chain.get(1), Some((6, 2)));
        assert_eq!(chain.get(5), Some((4, 1)));
        assert_eq!(chain.get(7), None);
        for keep in 0..=8u32 {
            let mut head = chain.clone();
            let tail = head.split_off(keep);
            let at = clusters.len().min(keep as usize);
            assert_eq!(head.iter().collect::<Vec<_>>(), clusters[..at]);
            assert_eq!(tail, clusters[at..]);
            assert_eq!(head.last(), clusters[..at].last().copied());
        }
    }
}

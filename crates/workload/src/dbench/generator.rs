//! A load with the proportions of the file that dbench 4.0 ships (Debian 4.0-2.1, `client.txt`,
//! 458,344 lines).
//!
//! Counted in it: ReadX 124,199, NTCreateX 79,230 (58,200 succeed, 16,056 of them create),
//! QUERY_PATH_INFORMATION 71,814, Close 58,200, WriteX 39,502, FIND_FIRST 27,765, Unlink 16,000,
//! QUERY_FS_INFORMATION 13,168, QUERY_FILE_INFORMATION 12,585, SET_FILE_INFORMATION 6,454, Flush
//! 5,553, Rename 3,355, LockX and UnlockX 258 each. Reads: 83,172 of 4,096 bytes, 16,641 of 61,440;
//! writes: 12,658 of 65,536, 9,942 of 4,096, 7,424 of 1; the others are drawn evenly around their
//! mean. The file is dbench's (GPL); nothing of it but these counts is here.

use nandkit_units::random::Random;

use super::grammar::{Disposition, Load, LoadLine, LoadOperation, Offset, Status};

const OPEN: Disposition = Disposition { creates: false, truncates: false };
const CREATE: Disposition = Disposition { creates: true, truncates: false };

/// Sessions of a file: opens that succeed.
const SESSIONS: f64 = 58_200.0;
const CREATED: f64 = 16_056.0;
/// Bytes of each file that is there at first.
const FILLER: u64 = 1 << 20;
const FILLER_PIECE: u32 = 64 << 10;
/// Small files that are there at first, so that there is something to delete and rename (the
/// shipped file leaves 48 of them).
const SMALL: u64 = 48;
const DIRECTORY: &str = "/clients/client1/~dmtmp";

/// Share of each size, the last with the bound up to which others are drawn.
struct Sizes {
    given: &'static [(f64, u32)],
    others: u64,
}

const READS: Sizes = Sizes { given: &[(83_172.0 / 124_199.0, 4096), (16_641.0 / 124_199.0, 61_440)], others: 8938 };
const WRITES: Sizes = Sizes {
    given: &[(12_658.0 / 39_502.0, 65_536), (9942.0 / 39_502.0, 4096), (7424.0 / 39_502.0, 1)],
    others: 30_740,
};

impl Sizes {
    fn draw(&self, random: &mut Random) -> u32 {
        let mut left = random.fraction();
        for (share, size) in self.given {
            if left < *share {
                return *size;
            }
            left -= share;
        }
        random.between(1, self.others) as u32
    }
}

/// A load that is being generated.
struct Generator {
    load: Load,
    random: Random,
    fillers: u64,
    /// Small files by their number, and the next number.
    small: Vec<u64>,
    next: u64,
    handle: u64,
}

/// A load of `operations` operations after a fill of `data` bytes.
pub(super) fn generate(seed: u64, operations: u64, data: u64) -> Load {
    let random = Random::new(seed, "load of dbench");
    let mut generator =
        Generator { load: Load::default(), random, fillers: data / FILLER, small: Vec::new(), next: 0, handle: 0 };
    generator.fill();
    let end = generator.load.lines.len() + operations as usize;
    while generator.load.lines.len() < end {
        generator.session();
    }
    generator.load.lines.truncate(end);
    generator.load
}

impl Generator {
    fn push(&mut self, operation: LoadOperation, status: Status) {
        let line = self.load.lines.len() as u32 + 1;
        self.load.lines.push(LoadLine { line, status, operation });
    }

    fn ok(&mut self, operation: LoadOperation) {
        self.push(operation, Status::Succeeds);
    }

    /// A random count whose mean is `mean`.
    fn times(&mut self, mean: f64) -> u64 {
        mean as u64 + u64::from(self.random.chance(mean.fract()))
    }

    fn open(&mut self, path: &str, disposition: Disposition) -> u64 {
        let path = self.load.path(path);
        self.handle += 1;
        let handle = self.handle;
        self.ok(LoadOperation::Create { path, disposition, directory: false, handle });
        handle
    }

    fn small_path(number: u64) -> String {
        format!("{DIRECTORY}/doc{number:05}.tmp")
    }

    fn create_small(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        self.small.push(number);
        self.open(&Self::small_path(number), CREATE)
    }

    fn fill(&mut self) {
        for path in ["/clients", "/clients/client1", DIRECTORY] {
            let path = self.load.path(path);
            self.ok(LoadOperation::MakeDirectory { path });
        }
        for number in 0..self.fillers {
            let handle = self.open(&format!("/clients/client1/filler.{number:03}"), CREATE);
            for offset in (0..FILLER).step_by(FILLER_PIECE as usize) {
                self.ok(LoadOperation::Write { handle, offset: Offset::At(offset), length: FILLER_PIECE });
            }
            self.ok(LoadOperation::Close { handle });
        }
        for _ in 0..SMALL {
            let handle = self.create_small();
            self.ok(LoadOperation::Write { handle, offset: Offset::At(0), length: 4096 });
            self.ok(LoadOperation::Close { handle });
        }
        self.load.fill = self.load.lines.len();
    }

    /// What comes between two sessions of a file.
    fn queries(&mut self) {
        for _ in 0..self.times(71_814.0 / SESSIONS) {
            let is_there = self.random.chance(47_429.0 / 71_814.0);
            let path = self.any_path(is_there);
            self.push(LoadOperation::Query { path }, if is_there { Status::Succeeds } else { Status::Fails });
        }
        for _ in 0..self.times(27_765.0 / SESSIONS) {
            let path = self.load.path(&format!("{DIRECTORY}/*.*"));
            self.ok(LoadOperation::Find { path });
        }
        for _ in 0..self.times(21_030.0 / SESSIONS) {
            let path = self.any_path(false);
            let operation = LoadOperation::Create { path, disposition: OPEN, directory: false, handle: u64::MAX };
            self.push(operation, Status::Fails);
        }
        for _ in 0..self.times(13_168.0 / SESSIONS) {
            self.ok(LoadOperation::Nothing);
        }
    }

    fn any_path(&mut self, is_there: bool) -> super::grammar::PathNumber {
        let number = self.random.index(self.small.len());
        match self.small.get(number) {
            Some(number) if is_there => self.load.path(&Self::small_path(*number)),
            _ => self.load.path(&format!("{DIRECTORY}/none.tmp")),
        }
    }

    fn session(&mut self) {
        self.queries();
        let creates = self.random.chance(CREATED / SESSIONS);
        let handle = if creates { self.write_new() } else { self.read_old() };
        for mean in [12_585.0, 6454.0, 2.0 * 258.0] {
            for _ in 0..self.times(mean / SESSIONS) {
                self.ok(LoadOperation::OfHandle { handle });
            }
        }
        self.ok(LoadOperation::Close { handle });
        if creates {
            self.rename_and_delete();
        }
    }

    fn write_new(&mut self) -> u64 {
        let handle = self.create_small();
        let mut offset = 0;
        for _ in 0..self.times(39_502.0 / CREATED) {
            let length = WRITES.draw(&mut self.random);
            self.ok(LoadOperation::Write { handle, offset: Offset::At(offset), length });
            offset += u64::from(length);
        }
        for _ in 0..self.times(5553.0 / CREATED) {
            self.ok(LoadOperation::Flush { handle });
        }
        handle
    }

    fn read_old(&mut self) -> u64 {
        let number = self.random.below(self.fillers);
        let handle = self.open(&format!("/clients/client1/filler.{number:03}"), OPEN);
        for _ in 0..self.times(124_199.0 / (SESSIONS - CREATED)) {
            let length = READS.draw(&mut self.random);
            let offset = self.random.below((FILLER - u64::from(length)) / 512 + 1) * 512;
            self.ok(LoadOperation::Read { handle, offset: Offset::At(offset), length });
        }
        handle
    }

    fn rename_and_delete(&mut self) {
        for _ in 0..self.times(3355.0 / CREATED) {
            let at = self.random.index(self.small.len());
            let to = self.next;
            self.next += 1;
            if let Some(number) = self.small.get_mut(at) {
                let from = std::mem::replace(number, to);
                let (from, to) = (self.load.path(&Self::small_path(from)), self.load.path(&Self::small_path(to)));
                self.ok(LoadOperation::Rename { from, to });
            }
        }
        if self.small.len() > 1 && self.random.chance(16_000.0 / CREATED) {
            let number = self.small.swap_remove(self.random.index(self.small.len()));
            let path = self.load.path(&Self::small_path(number));
            self.ok(LoadOperation::Unlink { path });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proportions_are_those_of_the_shipped_file() {
        use LoadOperation as Of;
        let load = generate(1, 458_344, 20 << 20);
        let measured = &load.lines[load.fill..];
        let count = |matches: fn(&LoadOperation) -> bool| {
            measured.iter().filter(|line| matches(&line.operation)).count() as f64
        };
        for (name, found, shipped) in [
            ("ReadX", count(|of| matches!(of, Of::Read { .. })), 124_199.0),
            ("NTCreateX", count(|of| matches!(of, Of::Create { .. })), 79_230.0),
            ("query path", count(|of| matches!(of, Of::Query { .. })), 71_814.0),
            ("Close", count(|of| matches!(of, Of::Close { .. })), 58_200.0),
            ("WriteX", count(|of| matches!(of, Of::Write { .. })), 39_502.0),
            ("FIND_FIRST", count(|of| matches!(of, Of::Find { .. })), 27_765.0),
            ("Unlink", count(|of| matches!(of, Of::Unlink { .. })), 16_000.0),
            ("query fs", count(|of| matches!(of, Of::Nothing)), 13_168.0),
            ("of handles", count(|of| matches!(of, Of::OfHandle { .. })), 12_585.0 + 6454.0 + 2.0 * 258.0),
            ("Flush", count(|of| matches!(of, Of::Flush { .. })), 5553.0),
            ("Rename", count(|of| matches!(of, Of::Rename { .. })), 3355.0),
        ] {
            assert!((found / shipped - 1.0).abs() < 0.05, "{name}: {found} instead of {shipped}");
        }
        let bytes = |of_reads: bool| -> f64 {
            let of = |line: &LoadLine| match line.operation {
                Of::Read { length, .. } if of_reads => f64::from(length),
                Of::Write { length, .. } if !of_reads => f64::from(length),
                _ => 0.0,
            };
            measured.iter().map(of).sum()
        };
        assert!((bytes(true) / 1_472_088_767.0 - 1.0).abs() < 0.05, "{}", bytes(true));
        assert!((bytes(false) / 1_015_974_170.0 - 1.0).abs() < 0.05, "{}", bytes(false));
    }
}

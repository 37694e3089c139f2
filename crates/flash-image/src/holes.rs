//! Writing a file sequentially, with holes for zeroes and a size limit.

use std::io::{self, Seek, SeekFrom, Write};

use nandkit_units::is_zeroed;

/// Size of the smallest hole in bytes.
const UNIT: usize = 4096;

/// Limits for the output made from an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most bytes in total, including holes.
    pub length: u64,
    /// Most bytes written, including zeroes unless they are known to be holes beforehand.
    pub written: u64,
}

/// A sequential writer that leaves out whole units of zeroes.
pub(crate) struct Holes<'a, T> {
    to: &'a mut T,
    /// Position of the next byte.
    at: u64,
    /// The file's current position, if known.
    stands: Option<u64>,
    limits: Limits,
    written: u64,
    /// Whether an error came from the output rather than from the input.
    pub failed: bool,
}

impl<'a, T: Write + Seek> Holes<'a, T> {
    pub fn new(to: &'a mut T, limits: Limits) -> Self {
        Self { to, at: 0, stands: None, limits, written: 0, failed: false }
    }

    /// Moves to a position; skipped bytes are a hole.
    pub fn go_to(&mut self, at: u64) {
        self.at = at;
    }

    /// The position of the next byte.
    pub const fn at(&self) -> u64 {
        self.at
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.stands != Some(self.at) {
            self.to.seek(SeekFrom::Start(self.at))?;
        }
        self.to.write_all(bytes)?;
        self.at += bytes.len() as u64;
        self.stands = Some(self.at);
        Ok(())
    }

    fn put_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        let count = bytes.len() as u64;
        let too_large = |what: &str, most: u64| {
            Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!("it {what} more than {most} bytes, which is the limit"),
            ))
        };
        if self.at.saturating_add(count) > self.limits.length {
            return too_large("has", self.limits.length);
        }
        self.written = self.written.saturating_add(count);
        if self.written > self.limits.written {
            return too_large("is filled with", self.limits.written);
        }
        let mut rest = bytes;
        while !rest.is_empty() {
            let kind = |unit: &[u8]| unit.len() == UNIT && is_zeroed(unit);
            let hole = kind(rest.get(..UNIT).unwrap_or(rest));
            let same = rest.chunks(UNIT).take_while(|unit| kind(unit) == hole).map(<[u8]>::len).sum();
            let (run, behind) = rest.split_at_checked(same).unwrap_or((rest, &[]));
            match hole {
                true => self.at += run.len() as u64,
                false => self.put(run)?,
            }
            rest = behind;
        }
        Ok(())
    }
}

impl<T: Write + Seek> Write for Holes<'_, T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let put = self.put_all(bytes);
        self.failed |= put.is_err();
        put.map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    #[test]
    fn zeroes_are_passed_over_and_limits_hold() {
        let limits = Limits { length: 8 << 12, written: 7 << 12 };
        let mut to = Cursor::new(Vec::new());
        let mut holes = Holes::new(&mut to, limits);
        let bytes: Vec<u8> = [vec![1; 4096], vec![0; 8192], vec![2; 5000]].concat();
        holes.write_all(&bytes).unwrap();
        assert_eq!(holes.at(), bytes.len() as u64);
        holes.go_to(7 << 12);
        assert!(!holes.failed, "nothing went wrong");
        assert!(holes.write_all(&[3; 4097]).is_err(), "longer than it may be");
        assert!(holes.failed, "which is this side's error");
        holes.go_to(0);
        assert!(holes.write_all(&[4; 4 << 12]).unwrap_err().to_string().contains("filled with more than 28672"));
        assert!(to.into_inner() == bytes);
    }
}

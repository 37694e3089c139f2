//! LEBs in memory that take nothing which UBI on NAND would not: each unit is written once, in
//! order, and only behind what was written.

use std::sync::{Arc, Mutex};

use nandkit_ubifs::{BuildOptions, LebBytes, LebWriter, Lebs};
use nandkit_units::Cause;
use nandkit_vfs::source::MemoryTree;
use nandkit_vfs::{ErrorKind, FsError, Result};

use crate::built::built;

/// How power goes: after so many steps, in the middle of the next one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cut {
    /// Steps that are still done; `None` for no cut.
    pub left: Option<u64>,
    /// Units that the cut write still brings to the flash.
    pub units: u32,
    /// Whether one more unit holds the beginning of its data and then garbage.
    pub is_torn: bool,
}

/// The LEBs: what was written of each; `None` if it is unmapped.
#[derive(Clone, Debug)]
pub struct StrictLebs {
    lebs: Arc<Mutex<Vec<Option<Vec<u8>>>>>,
    leb_size: u32,
    unit: u32,
    cut: Cut,
    /// Why what comes next is written.
    cause: Cause,
    /// Cause and LEB of each step of the volume and its copies in use, for those that choose cuts.
    pub steps: Arc<Mutex<Vec<(Cause, u32)>>>,
    /// LEBs written anew or unmapped.
    pub erases: u64,
    /// Bytes written.
    pub written: u64,
}

fn power_is_off<T>() -> Result<T> {
    Err(FsError::new(ErrorKind::Device, "the power is off"))
}

impl StrictLebs {
    /// An empty volume.
    pub fn formatted(options: &BuildOptions) -> Self {
        let empty = MemoryTree::from_builder(MemoryTree::builder());
        Self::of(&built(&empty, options).unwrap(), options)
    }

    /// The LEBs of an image. LEBs with nothing but erased flash are unmapped.
    pub fn of(image: &LebBytes, options: &BuildOptions) -> Self {
        let unit = options.min_io_size.max(8);
        let size = options.leb_size as usize;
        let mut lebs = vec![None; options.leb_count_max as usize];
        for (leb, bytes) in lebs.iter_mut().zip(image.bytes.chunks(size)) {
            let used = bytes.iter().rposition(|byte| *byte != 0xFF).map_or(0, |last| last + 1);
            let end = used.next_multiple_of(unit as usize).min(bytes.len());
            *leb = (end > 0).then(|| bytes[..end].to_vec());
        }
        Self {
            lebs: Arc::new(Mutex::new(lebs)),
            leb_size: options.leb_size,
            unit,
            cut: Cut::default(),
            cause: Cause::default(),
            steps: Arc::default(),
            erases: 0,
            written: 0,
        }
    }

    /// A copy of what is on the flash, with power, and with a cut to come.
    pub fn copy(&self, cut: Cut) -> Self {
        let lebs = self.lebs.lock().unwrap().clone();
        let (lebs, steps) = (Arc::new(Mutex::new(lebs)), Arc::default());
        Self { lebs, cut, steps, erases: 0, written: 0, ..*self }
    }

    /// The volume as an image.
    pub fn image(&self) -> LebBytes {
        let size = self.leb_size as usize;
        let lebs = self.lebs.lock().unwrap();
        let leb = |leb: &Option<Vec<u8>>| {
            let mut bytes = leb.clone().unwrap_or_default();
            bytes.resize(size, 0xFF);
            bytes
        };
        LebBytes { bytes: lebs.iter().flat_map(leb).collect(), leb_size: self.leb_size }
    }

    /// Counts a step; whether the power goes in it.
    fn step(&mut self, leb: u32) -> Result<bool> {
        self.steps.lock().unwrap().push((self.cause, leb));
        match &mut self.cut.left {
            None => Ok(false),
            Some(u64::MAX) => power_is_off(),
            Some(0) => {
                self.cut.left = Some(u64::MAX);
                Ok(true)
            }
            Some(left) => {
                *left -= 1;
                Ok(false)
            }
        }
    }

    fn set(&mut self, leb: u32, content: Option<Vec<u8>>) {
        self.lebs.lock().unwrap()[leb as usize] = content;
    }
}

/// The LEBs of a volume that was mounted.
pub fn strict(lebs: Box<dyn Lebs>) -> StrictLebs {
    *lebs.downcast().expect("LEBs that tests made")
}

impl Lebs for StrictLebs {
    fn leb_size(&self) -> u32 {
        self.leb_size
    }

    fn leb_count(&self) -> u32 {
        self.lebs.lock().unwrap().len() as u32
    }

    fn read(&self, leb: u32, offset: u32, into: &mut [u8]) -> Result<()> {
        into.fill(0xFF);
        let lebs = self.lebs.lock().unwrap();
        let Some(Some(bytes)) = lebs.get(leb as usize) else { return Ok(()) };
        let here = bytes.get(offset as usize..).unwrap_or_default();
        into.iter_mut().zip(here).for_each(|(to, from)| *to = *from);
        Ok(())
    }

    fn writer(&mut self) -> Option<&mut dyn LebWriter> {
        Some(self)
    }
}

impl LebWriter for StrictLebs {
    fn set_cause(&mut self, cause: Cause) {
        self.cause = cause;
    }

    fn write(&mut self, leb: u32, offset: u32, data: &[u8]) -> Result<()> {
        assert!(offset.is_multiple_of(self.unit) && data.len().is_multiple_of(self.unit as usize), "{leb} {offset}");
        assert!(offset as usize + data.len() <= self.leb_size as usize, "LEB {leb}: {} at {offset}", data.len());
        let unit = self.unit as usize;
        let is_cut = self.step(leb)?;
        let mut bytes = self.lebs.lock().unwrap()[leb as usize].clone().unwrap_or_default();
        assert_eq!(bytes.len(), offset as usize, "LEB {leb} is written at another place than its end");
        let whole = if is_cut { data.len().min(self.cut.units as usize * unit) } else { data.len() };
        bytes.extend_from_slice(&data[..whole]);
        if is_cut && self.cut.is_torn && whole < data.len() {
            let torn = &data[whole..whole + unit];
            bytes.extend(torn.iter().enumerate().map(|(at, byte)| if at < unit / 2 { *byte } else { byte ^ 0x5A }));
        }
        self.written += data.len() as u64;
        self.set(leb, Some(bytes));
        if is_cut { power_is_off() } else { Ok(()) }
    }

    fn change(&mut self, leb: u32, data: &[u8]) -> Result<()> {
        assert!(data.len().is_multiple_of(self.unit as usize) && data.len() <= self.leb_size as usize, "LEB {leb}");
        if self.step(leb)? {
            return power_is_off();
        }
        self.erases += 1;
        self.written += data.len() as u64;
        self.set(leb, Some(data.to_vec()));
        Ok(())
    }

    fn map(&mut self, leb: u32) -> Result<()> {
        if self.step(leb)? {
            return power_is_off();
        }
        let old = self.lebs.lock().unwrap()[leb as usize].clone();
        assert_eq!(old, None, "LEB {leb} is mapped");
        self.set(leb, Some(Vec::new()));
        Ok(())
    }

    fn unmap(&mut self, leb: u32) -> Result<()> {
        if self.step(leb)? {
            return power_is_off();
        }
        self.erases += u64::from(self.lebs.lock().unwrap()[leb as usize].is_some());
        self.set(leb, None);
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        if self.step(u32::MAX)? { power_is_off() } else { Ok(()) }
    }
}

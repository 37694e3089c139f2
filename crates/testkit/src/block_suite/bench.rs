//! A device under test with the steps that checks share.

use nandkit_block::{BlockDevice, BlockError, BlockGeometry, ErrorKind};
use nandkit_units::random::Random;
use nandkit_units::{Context, Done, Lba, Nanos, Payload, ReadInto};

use super::BlockOptions;
use crate::flash_suite::same;

pub struct Bench<'a> {
    pub device: Box<dyn BlockDevice>,
    pub geometry: BlockGeometry,
    pub options: &'a BlockOptions,
    pub random: Random,
    pub now: Nanos,
    asked: BlockGeometry,
    make: &'a mut dyn FnMut(&BlockGeometry) -> Box<dyn BlockDevice>,
}

impl<'a> Bench<'a> {
    pub fn new(
        make: &'a mut dyn FnMut(&BlockGeometry) -> Box<dyn BlockDevice>,
        asked: &BlockGeometry,
        options: &'a BlockOptions,
    ) -> Self {
        let device = make(asked);
        let geometry = *device.geometry();
        let random = Random::new(options.seed, "block suite");
        Self { device, geometry, options, random, now: Nanos(1_000_000), asked: *asked, make }
    }

    /// Makes another device, in the state at the start of the check.
    pub fn another(&mut self) -> Box<dyn BlockDevice> {
        (self.make)(&self.asked)
    }

    pub const fn asked(&self) -> &BlockGeometry {
        &self.asked
    }

    pub fn context(&self) -> Context {
        Context::at(self.now)
    }

    pub fn size(&self) -> usize {
        self.geometry.sector_size as usize
    }

    pub fn last(&self) -> Lba {
        Lba(self.geometry.sectors - 1)
    }

    pub fn random_sectors(&mut self, sectors: u64) -> Vec<u8> {
        let mut bytes = vec![0; sectors as usize * self.size()];
        self.random.fill(&mut bytes);
        bytes
    }

    pub fn write(&mut self, at: Lba, bytes: &[u8]) -> Result<Done, String> {
        let context = self.context();
        let done = self
            .device
            .write(&context, at, Payload::Bytes(bytes))
            .map_err(|error| format!("a plain write was refused: {error}"))?;
        self.now = self.now.max(done.completed);
        Ok(done)
    }

    /// Writes random bytes and returns them.
    pub fn fill(&mut self, at: Lba, sectors: u64) -> Result<Vec<u8>, String> {
        let bytes = self.random_sectors(sectors);
        self.write(at, &bytes)?;
        Ok(bytes)
    }

    pub fn read(&self, at: Lba, sectors: u64) -> Result<Vec<u8>, String> {
        let mut bytes = vec![0xA5; sectors as usize * self.size()];
        self.device
            .read(&self.context(), at, ReadInto::Bytes(&mut bytes))
            .map_err(|error| format!("a plain read was refused: {error}"))?;
        Ok(bytes)
    }

    pub fn expect(&self, at: Lba, expected: &[u8], why: &str) -> Result<(), String> {
        let found = self.read(at, (expected.len() / self.size()) as u64)?;
        same(&found, expected).map_err(|detail| format!("{why}: from {at} on: {detail}"))
    }

    /// Whether the result is an error of this kind.
    pub fn expect_error(result: Result<Done, BlockError>, kind: ErrorKind, what: &str) -> Result<(), String> {
        match result {
            Err(error) if error.kind == kind => Ok(()),
            Err(error) => Err(format!("{what}: expected {kind:?}, got: {error}")),
            Ok(_) => Err(format!("{what}: expected {kind:?}, but it succeeded")),
        }
    }
}

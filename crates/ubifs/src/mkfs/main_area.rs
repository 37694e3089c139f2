//! The main area of a new volume: nodes one behind the other, with the properties of each LEB.

use nandkit_vfs::{ErrorKind, FsError, Result};

use super::{BuildOptions, LebSink};
use crate::encode::{aligned, pad};
use crate::lpt::LebProperties;
use crate::node::Place;

/// Writes LEBs from front to back.
pub(super) struct MainArea<'a> {
    options: &'a BuildOptions,
    sink: &'a mut dyn LebSink,
    first: u32,
    properties: Vec<LebProperties>,
    /// The LEB that is being filled; it becomes a LEB with its first node.
    current: Vec<u8>,
    is_index: bool,
    /// Bytes of the current LEB that nodes take, with their alignment.
    used: u32,
}

impl<'a> MainArea<'a> {
    /// An area from a LEB on.
    pub fn new(options: &'a BuildOptions, sink: &'a mut dyn LebSink, first: u32) -> Self {
        let current = Vec::with_capacity(options.leb_size as usize);
        Self { options, sink, first, properties: Vec::new(), current, is_index: false, used: 0 }
    }

    /// The number of the current LEB.
    fn leb(&self) -> u32 {
        self.first + self.properties.len() as u32
    }

    /// Where the next node would begin if it fits.
    pub fn head(&self) -> (u32, u32) {
        (self.leb(), self.current.len() as u32)
    }

    /// Writes a node, of the index or another; a LEB holds either. Errors: `NoSpace`, and those of
    /// the sink.
    pub fn put(&mut self, node: &[u8], is_index: bool) -> Result<Place> {
        if is_index != self.is_index || self.current.len() + aligned(node.len()) > self.options.leb_size as usize {
            self.close()?;
            self.is_index = is_index;
        }
        let place = Place { leb: self.leb(), offset: self.current.len() as u32, length: node.len() as u32 };
        self.current.extend_from_slice(node);
        let end = aligned(self.current.len());
        pad(&mut self.current, end);
        self.used = end as u32;
        Ok(place)
    }

    /// Pads the current LEB to a unit of output, and returns where it ends.
    pub fn pad_head(&mut self) -> (u32, u32) {
        let end = self.current.len().next_multiple_of(self.options.min_io_size as usize);
        pad(&mut self.current, end);
        self.head()
    }

    /// Ends the current LEB, if there is anything in it.
    pub fn close(&mut self) -> Result<()> {
        if self.current.is_empty() {
            return Ok(());
        }
        self.pad_head();
        let (end, leb_size) = (self.current.len() as u32, self.options.leb_size);
        let properties = LebProperties { free: leb_size - end, dirty: end - self.used, is_index: self.is_index };
        let leb = self.next(properties)?;
        self.sink.put(leb, &self.current)?;
        self.current.clear();
        self.used = 0;
        Ok(())
    }

    /// Leaves a LEB empty, and returns its number.
    pub fn empty(&mut self) -> Result<u32> {
        self.close()?;
        self.next(LebProperties { free: self.options.leb_size, dirty: 0, is_index: false })
    }

    fn next(&mut self, properties: LebProperties) -> Result<u32> {
        let leb = self.leb();
        if leb >= self.options.leb_count_max {
            let detail = format!(
                "the tree does not fit into {} LEBs of {} bytes; expected more LEBs",
                self.options.leb_count_max, self.options.leb_size
            );
            return Err(FsError::new(ErrorKind::NoSpace, detail));
        }
        self.properties.push(properties);
        Ok(leb)
    }

    /// The properties of all LEBs, and the sink.
    pub fn finish(self) -> (Vec<LebProperties>, &'a mut dyn LebSink) {
        (self.properties, self.sink)
    }
}

//! The tree of LEB properties of a new volume, written as a whole.

use nandkit_vfs::Result;

use super::{BuildOptions, LebSink};
use crate::lpt::{FANOUT, LebProperties, LptGeometry, LptPlaces};

/// The LEBs of the tree while they are filled.
struct Writer<'a> {
    leb_size: usize,
    min_io: usize,
    sink: &'a mut dyn LebSink,
    first: u32,
    /// Free and dirty bytes of the LEBs that are full.
    lebs: Vec<(u32, u32)>,
    current: Vec<u8>,
}

impl Writer<'_> {
    /// The place of the next bytes, in the LEB counted from the first one.
    fn place(&mut self, length: usize) -> Result<(u32, u32)> {
        if self.current.len() + length > self.leb_size {
            let properties = self.properties(self.current.len());
            self.flush()?;
            self.lebs.push(properties);
            self.current.clear();
        }
        Ok((self.lebs.len() as u32, self.current.len() as u32))
    }

    fn properties(&self, used: usize) -> (u32, u32) {
        let end = used.next_multiple_of(self.min_io);
        ((self.leb_size - end) as u32, (end - used) as u32)
    }

    fn flush(&mut self) -> Result<()> {
        let end = self.current.len().next_multiple_of(self.min_io);
        self.current.resize(end, 0xFF);
        self.sink.put(self.first + self.lebs.len() as u32, &self.current)
    }

    fn put(&mut self, node: &[u8]) -> Result<(u32, u32)> {
        let place = self.place(node.len())?;
        self.current.extend_from_slice(node);
        Ok(place)
    }
}

/// Writes the tree from its leaves to its root, then the saved numbers and the table.
pub(super) fn write(
    geometry: &LptGeometry,
    options: &BuildOptions,
    properties: &[LebProperties],
    first: u32,
    main_first: u32,
    sink: &mut dyn LebSink,
) -> Result<LptPlaces> {
    let (leb_size, min_io) = (options.leb_size as usize, options.min_io_size.max(8) as usize);
    let mut writer = Writer { leb_size, min_io, sink, first, lebs: Vec::new(), current: Vec::new() };
    let mut below = Vec::with_capacity(geometry.leaves as usize);
    for (number, lebs) in (0..).zip(properties.chunks(FANOUT as usize)) {
        below.push(writer.put(&geometry.leaf(number, lebs, options.leb_size))?);
    }
    for level in (0..geometry.height).rev() {
        let mut nodes = Vec::with_capacity(below.len().div_ceil(FANOUT as usize));
        for (place, children) in (0..).zip(below.chunks(FANOUT as usize)) {
            nodes.push(writer.put(&geometry.inner(LptGeometry::inner_number(level, place), children))?);
        }
        below = nodes;
    }
    let mut places = LptPlaces { root: below.first().copied().unwrap_or_default(), ..LptPlaces::default() };
    if geometry.is_big {
        let lebs = (0..super::options::SAVED).map(|_| main_first);
        places.saved = writer.put(&geometry.saved(lebs))?;
    }
    places.table = writer.place(geometry.table_size as usize)?;
    let mut lebs = writer.lebs.clone();
    lebs.push(writer.properties(writer.current.len() + geometry.table_size as usize));
    lebs.resize(geometry.lebs as usize, (options.leb_size, 0));
    writer.put(&geometry.table(&lebs))?;
    writer.flush()?;
    places.head = (writer.lebs.len() as u32, writer.current.len() as u32);
    Ok(places.within(first, geometry.is_big))
}

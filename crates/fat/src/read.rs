//! Reading files: whole sectors in the form that the device stores, and partial sectors cut out of
//! them.

use nandkit_block::BlockDevice;
use nandkit_units::{Content, Described, Payload, ReadInto};
use nandkit_vfs::{ErrorKind, FsError, Result};

use crate::sectors::follows;
use crate::volume::MountedVolume;

/// Pieces joined: a description as long as each piece continues the previous one, else bytes.
#[derive(Debug, Default)]
struct Gathered {
    described: Option<Described>,
    bytes: Vec<u8>,
}

impl Gathered {
    fn push(&mut self, payload: Payload<'_>) {
        if let (Payload::Described(next), true) = (payload, self.bytes.is_empty()) {
            match &mut self.described {
                None => {
                    self.described = Some(next);
                    return;
                }
                Some(run) if follows(run, &next) => {
                    run.length += next.length;
                    return;
                }
                Some(_) => {}
            }
        }
        if let Some(described) = self.described.take() {
            self.bytes.resize(described.length as usize, 0);
            described.description.generate(&mut self.bytes);
        }
        let start = self.bytes.len();
        self.bytes.resize(start + payload.len(), 0);
        if let Some(place) = self.bytes.get_mut(start..) {
            payload.copy_to(place);
        }
    }

    fn give(self, content: &mut Content) {
        match self.described {
            Some(described) => content.set_described(described),
            None => content.set_bytes(self.bytes.len()).copy_from_slice(&self.bytes),
        }
    }
}

/// A piece of a request: consecutive sectors, and the requested bytes in them.
struct Piece {
    lba: u64,
    sectors: u64,
    /// Bytes to skip in the first sector.
    skip: usize,
    /// Number of requested bytes.
    wanted: usize,
}

impl<D: BlockDevice> MountedVolume<D> {
    /// Reads from a file. If its chain is shorter than its size, the content ends with the chain: a
    /// read across that end returns short, one at the end returns 0 bytes, and one past it is
    /// `Corrupt`.
    pub fn read_file(&mut self, number: u64, offset: u64, mut into: ReadInto<'_>) -> Result<usize> {
        let size = u64::from(self.file(number)?.raw.size.get());
        let mut length = size.saturating_sub(offset).min(into.len() as u64) as usize;
        if length > 0 {
            let clusters = self.ensure_chain(number)?.len();
            let capacity = u64::from(clusters) * u64::from(self.geometry.cluster_size());
            if offset > capacity {
                self.locate(number, offset)?;
            }
            length = length.min(usize::try_from(capacity.saturating_sub(offset)).unwrap_or(length));
        }
        if length == 0 {
            if let ReadInto::Content { content, .. } = into {
                content.set_bytes(0);
            }
            return Ok(0);
        }
        let mut gathered = Gathered::default();
        let mut at = 0;
        while at < length {
            let piece = self.piece(number, offset + at as u64, length - at)?;
            let bytes = piece.sectors as usize * self.sectors.size() as usize;
            let whole = piece.skip == 0 && piece.wanted == bytes;
            match &mut into {
                ReadInto::Nothing { .. } => {
                    self.sectors.read_data(piece.lba, ReadInto::Nothing { length: bytes as u32 })?;
                }
                ReadInto::Bytes(out) => {
                    let Some(out) = out.get_mut(at..at + piece.wanted) else { break };
                    if whole {
                        self.sectors.read_data(piece.lba, ReadInto::Bytes(out))?;
                    } else {
                        let sector = self.sectors.read_data_sector(piece.lba)?;
                        let part = sector.get(piece.skip..piece.skip + piece.wanted);
                        part.into_iter().for_each(|part| out.copy_from_slice(part));
                    }
                }
                ReadInto::Content { .. } => {
                    let mut content = Content::new();
                    self.sectors
                        .read_data(piece.lba, ReadInto::Content { content: &mut content, length: bytes as u32 })?;
                    if let Some(part) = content.payload().part(piece.skip, piece.wanted) {
                        gathered.push(part);
                    }
                }
            }
            at += piece.wanted;
        }
        if let ReadInto::Content { content, .. } = into {
            gathered.give(content);
        }
        Ok(length)
    }

    /// The longest piece at `offset` that a single request can read: a part of a sector, or whole
    /// consecutive sectors.
    fn piece(&self, number: u64, offset: u64, length: usize) -> Result<Piece> {
        let size = u64::from(self.sectors.size());
        let (address, run) = self.locate(number, offset)?;
        let skip = (address % size) as usize;
        let lba = address / size;
        let available = run.min(length as u64);
        if skip > 0 || available < size {
            let wanted = available.min(size - skip as u64) as usize;
            return Ok(Piece { lba, sectors: 1, skip, wanted });
        }
        // At most 256 MiB at once, so that lengths fit in 32 bits.
        let sectors = self.sectors.data_run(lba, (available / size).min((256 << 20) / size));
        Ok(Piece { lba, sectors, skip: 0, wanted: (sectors * size) as usize })
    }

    /// The device position of a file's byte, and the number of bytes that are contiguous from
    /// there.
    pub fn locate(&self, number: u64, offset: u64) -> Result<(u64, u64)> {
        let cluster_size = u64::from(self.geometry.cluster_size());
        let inode = self.inode(number)?;
        let chain = inode.chain.as_ref();
        let found = chain.and_then(|chain| chain.get((offset / cluster_size) as u32));
        let (cluster, run) = found.ok_or_else(|| {
            let clusters = chain.map_or(0, |chain| chain.len());
            let detail = format!(
                "inode {number} has {} bytes, but its chain ends after {clusters} clusters of {cluster_size} bytes",
                inode.raw.size
            );
            FsError::new(ErrorKind::Corrupt, detail)
        })?;
        let within = offset % cluster_size;
        Ok((self.geometry.cluster_start(cluster) + within, u64::from(run) * cluster_size - within))
    }
}

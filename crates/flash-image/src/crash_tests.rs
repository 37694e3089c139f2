//! Crashes in the middle of a sync, locks, and journals of other images.

use std::path::{Path, PathBuf};

use nandkit_flash::{Flash, PageProgram, PageRead};
use nandkit_units::{BlockIndex, Context, PageAddress, Payload};

use crate::journal::Journal;
use crate::layout::Shape;
use crate::pieces::{Piece, PieceContent};
use crate::{DumpFlash, DumpOptions, Image, ImageErrorKind, ImageLayout, OobPlacement};

struct Bench {
    directory: tempfile::TempDir,
    layout: ImageLayout,
    /// Image and OOB file before the sync, and after.
    old: [Vec<u8>; 2],
    new: [Vec<u8>; 2],
    journal: Vec<u8>,
}

impl Bench {
    /// A dump of three blocks with an incomplete last one, and a sync that programs, erases, marks
    /// and grows the file, stopped after its journal was written.
    fn new(oob: OobPlacement) -> Self {
        let layout = ImageLayout::new(
            nandkit_units::FlashKind::Nand,
            2048,
            512,
            if oob == OobPlacement::None { 0 } else { 16 },
            oob,
        );
        let length = 2 * layout.stored_block() as usize + 700;
        let pattern = |length: usize| (0..length).map(|at| (at * 7 % 251) as u8).collect::<Vec<u8>>();
        let mut old = [pattern(length), if oob == OobPlacement::Separate { pattern(8 * 16 + 20) } else { Vec::new() }];
        // No bad-block marks.
        let shape = Shape::new(layout.clone(), length as u64).unwrap();
        for block in (0..3).filter(|_| layout.oob_size > 0) {
            for page in 0..2 {
                let place = shape.place(PageAddress::new(block, page)).unwrap().oob as usize + 5;
                let file = usize::from(oob == OobPlacement::Separate);
                old[file].get_mut(place).into_iter().for_each(|byte| *byte = 0xFF);
            }
        }
        let directory = tempfile::tempdir().unwrap();
        let mut bench = Self { directory, layout, old: old.clone(), new: old, journal: Vec::new() };
        bench.put(&bench.old.clone(), None);
        let mut device = bench.device(&DumpOptions::read_write());
        let context = Context::default();
        device.erase(&context, BlockIndex(1)).unwrap();
        let spare = vec![0xFF; device.geometry().oob_size as usize];
        device
            .program(&context, PageAddress::new(1, 1), PageProgram::new(Payload::Bytes(&[0x33; 512]), &spare))
            .unwrap();
        device.program(&context, PageAddress::new(2, 3), PageProgram::bytes(0, &[0x44; 512])).unwrap();
        device.mark_bad(&context, BlockIndex(0)).unwrap();
        device.journal_only().unwrap();
        bench.journal = std::fs::read(bench.journal_path()).unwrap();
        let (image, oob) = device.into_bytes();
        bench.new = [image, oob.unwrap_or_default()];
        assert!(bench.new[0].len() > bench.old[0].len() && bench.new != bench.old);
        bench
    }

    fn image_path(&self) -> PathBuf {
        self.directory.path().join("dump.bin")
    }

    fn oob_path(&self) -> PathBuf {
        self.directory.path().join("oob.bin")
    }

    fn journal_path(&self) -> PathBuf {
        self.directory.path().join("dump.bin.nandkit-journal")
    }

    fn put(&self, files: &[Vec<u8>; 2], journal: Option<&[u8]>) {
        std::fs::write(self.image_path(), &files[0]).unwrap();
        if self.layout.oob == OobPlacement::Separate {
            std::fs::write(self.oob_path(), &files[1]).unwrap();
        }
        match journal {
            Some(journal) => std::fs::write(self.journal_path(), journal).unwrap(),
            None => drop(std::fs::remove_file(self.journal_path())),
        }
    }

    fn options(&self, options: &DumpOptions) -> DumpOptions {
        let oob_file = (self.layout.oob == OobPlacement::Separate).then(|| self.oob_path());
        DumpOptions { oob_file, ..options.clone() }
    }

    fn device(&self, options: &DumpOptions) -> DumpFlash {
        DumpFlash::new(Image::open(&self.image_path(), &self.options(options)).unwrap(), self.layout.clone()).unwrap()
    }

    fn on_disk(&self) -> [Vec<u8>; 2] {
        let read = |path: &Path| std::fs::read(path).unwrap_or_default();
        [read(&self.image_path()), read(&self.oob_path())]
    }

    /// Checks what readers, with and without mapping, and then a writer see; the writer leaves no
    /// journal.
    fn expect(&self, expected: &[Vec<u8>; 2], what: &str) {
        let before = self.on_disk();
        for copy in [false, true] {
            let (image, oob) = self.device(&DumpOptions { copy, ..DumpOptions::read_only() }).into_bytes();
            assert!(
                [image, oob.unwrap_or_default()] == *expected,
                "{what}: a reader finds something else, copy {copy}"
            );
        }
        assert!(self.on_disk() == before, "{what}: a reader changed the file");
        drop(self.device(&DumpOptions::read_write()));
        assert!(self.on_disk() == *expected, "{what}: a writer leaves something else");
        assert!(!self.journal_path().exists(), "{what}: the journal is still there");
    }
}

/// The files after the first `changed` bytes of the pieces were written.
fn half_applied(files: &[Vec<u8>; 2], pieces: &[Piece<'_>], mut changed: u64) -> [Vec<u8>; 2] {
    let mut files = files.clone();
    for piece in pieces {
        let length = piece.len().min(changed);
        changed -= length;
        let content = match piece.content {
            PieceContent::Bytes(bytes) => PieceContent::Bytes(&bytes[..length as usize]),
            PieceContent::Erased(_) => PieceContent::Erased(length),
        };
        if length > 0 {
            crate::pieces::put(&mut files[usize::from(piece.file)], &Piece { content, ..piece.clone() });
        }
    }
    files
}

#[test]
fn a_journal_cut_at_any_byte_leaves_the_last_sync_and_a_whole_one_the_next() {
    for (oob, step) in [(OobPlacement::AfterPage, 1), (OobPlacement::Separate, 13)] {
        let bench = Bench::new(oob);
        for cut in (0..bench.journal.len()).step_by(step) {
            bench.put(&bench.old, Some(&bench.journal[..cut]));
            bench.expect(&bench.old, &format!("{oob:?}, journal of {cut} bytes"));
        }
        bench.put(&bench.old, Some(&bench.journal));
        bench.expect(&bench.new, &format!("{oob:?}, whole journal"));
    }
}

#[test]
fn a_sync_that_stops_while_it_changes_the_file_is_completed() {
    for oob in [OobPlacement::None, OobPlacement::AfterPage, OobPlacement::AfterBlock, OobPlacement::Separate] {
        let bench = Bench::new(oob);
        let journal = Journal::decode(bench.journal.clone()).unwrap();
        let pieces = journal.pieces();
        let total: u64 = pieces.iter().map(Piece::len).sum();
        for changed in (0..=total).step_by(101).chain([total]) {
            bench.put(&half_applied(&bench.old, &pieces, changed), Some(&bench.journal));
            bench.expect(&bench.new, &format!("{oob:?}, {changed} of {total} bytes changed"));
        }
    }
}

#[test]
fn a_damaged_journal_never_counts_and_a_foreign_one_is_refused() {
    let bench = Bench::new(OobPlacement::AfterPage);
    for at in 0..bench.journal.len() {
        let mut damaged = bench.journal.clone();
        damaged[at] ^= 1 << (at % 8);
        assert!(Journal::decode(damaged).is_none(), "bit flipped in byte {at}");
    }
    let mut longer = bench.journal.clone();
    longer.push(0);
    assert!(Journal::decode(longer).is_none());
    let other = [bench.old[0].iter().map(|byte| byte ^ 0x80).collect::<Vec<u8>>(), Vec::new()];
    let shorter = [bench.old[0][..900].to_vec(), Vec::new()];
    for files in [&other, &shorter] {
        bench.put(files, Some(&bench.journal));
        for options in [DumpOptions::read_only(), DumpOptions::read_write()] {
            let error = Image::open(&bench.image_path(), &options).unwrap_err();
            assert_eq!(error.kind, ImageErrorKind::Corrupt);
            assert!(error.to_string().contains("nandkit-journal"), "{error}");
        }
        assert_eq!(&bench.on_disk(), files);
    }
}

/// A journal with valid checksums that erases more than exists: the samples that distinguish images
/// all lie within the erased range.
#[test]
fn a_journal_that_makes_files_grow_beyond_measure_is_refused() {
    let bench = Bench::new(OobPlacement::Separate);
    for (file, pieces) in [
        (0, vec![(0, 1 << 50)]),
        (1, vec![(0, 1 << 50)]),
        // A byte far past the end.
        (0, vec![(0, bench.old[0].len() as u64), ((1 << 50) - 1, 1)]),
        // The same piece many times.
        (0, vec![(0, bench.old[0].len() as u64); 1 << 16]),
        (7, vec![(0, 1)]),
    ] {
        let total = 48 + 24 * pieces.len() as u64 + 4;
        let mut journal = [&b"NANDKDJ1"[..], &1_u32.to_le_bytes(), &(pieces.len() as u32).to_le_bytes()].concat();
        for length in [total, bench.old[0].len() as u64, bench.old[1].len() as u64] {
            journal.extend_from_slice(&length.to_le_bytes());
        }
        // The samples of the unchanged bytes: those of the other file.
        let mut samples = crc32fast::Hasher::new();
        for (_, old) in bench.old.iter().enumerate().filter(|(other, _)| *other != file) {
            for start in (0..64).map(|sample| sample * (old.len() / 64)) {
                samples.update(&old[start..(start + 512).min(old.len())]);
            }
        }
        journal.extend_from_slice(&samples.finalize().to_le_bytes());
        journal.extend_from_slice(&crc32fast::hash(&journal).to_le_bytes());
        for (offset, length) in pieces {
            journal.extend_from_slice(&[file as u8, 1, 0, 0, 0, 0, 0, 0]);
            journal.extend_from_slice(&u64::to_le_bytes(offset));
            journal.extend_from_slice(&u64::to_le_bytes(length));
        }
        journal.extend_from_slice(&crc32fast::hash(&journal).to_le_bytes());
        bench.put(&bench.old, Some(&journal));
        for options in [DumpOptions::read_only(), DumpOptions::read_write()] {
            let error = Image::open(&bench.image_path(), &bench.options(&options)).unwrap_err();
            assert!(
                error.kind == ImageErrorKind::Corrupt && error.to_string().contains("remove the journal"),
                "{error}"
            );
            assert_eq!(bench.on_disk(), bench.old);
        }
    }
}

#[test]
fn what_was_synced_is_in_the_file_and_what_was_not_is_not() {
    for (oob, copy) in
        [(OobPlacement::AfterPage, false), (OobPlacement::AfterPage, true), (OobPlacement::Separate, true)]
    {
        let bench = Bench::new(oob);
        bench.put(&bench.old, None);
        let mut device = bench.device(&DumpOptions { copy, ..DumpOptions::read_write() });
        let context = Context::default();
        let spare = [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x77];
        // Only the second step makes the file longer.
        for (step, at) in
            [PageAddress::new(1, 0), PageAddress::new(2, 2), PageAddress::new(1, 3), PageAddress::new(2, 3)]
                .into_iter()
                .enumerate()
        {
            if step == 0 {
                device.erase(&context, BlockIndex(1)).unwrap();
            }
            device.program(&context, at, PageProgram::new(Payload::Bytes(&[step as u8; 512]), &spare)).unwrap();
            device.sync(&context).unwrap();
            let mut found = [0xEE; 512];
            for step in (0..=step).rev() {
                let at =
                    [PageAddress::new(1, 0), PageAddress::new(2, 2), PageAddress::new(1, 3), PageAddress::new(2, 3)]
                        [step];
                device.read(&context, at, PageRead::bytes(0, &mut found)).unwrap();
                assert_eq!(found, [step as u8; 512], "{oob:?}, copy {copy}: {at} after its sync");
            }
        }
        let synced = bench.on_disk();
        assert!(synced[0].len() > bench.old[0].len() && !bench.journal_path().exists());
        device.program(&context, PageAddress::new(1, 1), PageProgram::bytes(0, &[9; 512])).unwrap();
        let (image, spare) = device.into_bytes();
        assert_eq!(bench.on_disk(), synced);
        drop((image, spare));
        let (image, spare) = bench.device(&DumpOptions::read_only()).into_bytes();
        assert!([image, spare.unwrap_or_default()] == synced);
    }
}

#[test]
fn a_sync_whose_journal_cannot_be_written_changes_nothing_and_may_be_tried_again() {
    let bench = Bench::new(OobPlacement::AfterPage);
    bench.put(&bench.old, None);
    let mut device = bench.device(&DumpOptions::read_write());
    let context = Context::default();
    device.erase(&context, BlockIndex(1)).unwrap();
    std::fs::create_dir(bench.journal_path()).unwrap();
    let error = device.sync(&context).unwrap_err();
    assert!(
        error.kind == nandkit_flash::ErrorKind::Io && error.to_string().contains("dump.bin.nandkit-journal"),
        "{error}"
    );
    assert_eq!(bench.on_disk(), bench.old);
    std::fs::remove_dir(bench.journal_path()).unwrap();
    device.sync(&context).unwrap();
    let start = bench.layout.stored_block() as usize;
    assert!(bench.on_disk()[0][start..2 * start].iter().all(|&byte| byte == 0xFF));
}

#[test]
fn a_link_to_the_image_finds_its_journal() {
    let bench = Bench::new(OobPlacement::AfterPage);
    bench.put(&bench.old, Some(&bench.journal));
    let elsewhere = tempfile::tempdir().unwrap();
    let link = elsewhere.path().join("link.bin");
    std::os::unix::fs::symlink(bench.image_path(), &link).unwrap();
    let image = Image::open(&link, &DumpOptions::read_only()).unwrap();
    assert!(image.bytes() == bench.new[0]);
}

#[test]
fn one_writer_or_many_readers() {
    let bench = Bench::new(OobPlacement::AfterPage);
    bench.put(&bench.old, None);
    let open = |options: DumpOptions| Image::open(&bench.image_path(), &options);
    let refused = |options: DumpOptions| {
        let error = open(options).unwrap_err();
        assert_eq!(error.kind, ImageErrorKind::InUse);
        assert!(error.to_string().contains("dump.bin is in use"), "{error}");
    };
    let readers = [open(DumpOptions::read_only()).unwrap(), open(DumpOptions::read_only()).unwrap()];
    refused(DumpOptions::read_write());
    drop(readers);
    let writer = open(DumpOptions::read_write()).unwrap();
    refused(DumpOptions::read_write());
    refused(DumpOptions::read_only());
    let view = writer.view(bench.layout.clone()).unwrap();
    let error = DumpFlash::new(writer, bench.layout.clone()).unwrap_err();
    assert_eq!(error.kind, ImageErrorKind::InUse, "a writer beside a view of its own");
    drop(view);
    open(DumpOptions::read_write()).unwrap();
}

#[test]
fn a_reader_needs_no_permission_and_errors_name_the_file() {
    let bench = Bench::new(OobPlacement::None);
    bench.put(&bench.old, None);
    let mut device = bench.device(&DumpOptions::read_only());
    let refused = device.erase(&Context::default(), BlockIndex(0)).unwrap_err();
    assert_eq!(refused.kind, nandkit_flash::ErrorKind::ReadOnly);
    device.sync(&Context::default()).unwrap();
    let open = |path: &Path| Image::open(path, &DumpOptions::read_only()).unwrap_err();
    std::fs::write(bench.image_path(), b"").unwrap();
    assert_eq!(open(&bench.image_path()).kind, ImageErrorKind::Empty);
    let nowhere = open(&bench.directory.path().join("nowhere.bin")).to_string();
    assert!(nowhere.contains("nowhere.bin"), "{nowhere}");
    assert!(open(bench.directory.path()).to_string().contains("is a directory"));
}

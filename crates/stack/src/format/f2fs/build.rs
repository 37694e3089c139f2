//! F2FS volumes, empty or from trees.

use std::fs::File;
use std::path::Path;

use nandkit_block::{Access, FileDevice};
use nandkit_f2fs::mkfs::{EmptyTree, Mkfs, MkfsOptions, MkfsReport, features_named, uuid_of};
use nandkit_units::{Clock, format_bytes};
use nandkit_vfs::FsError;
use nandkit_vfs::source::SourceTree;

use crate::StackError;
use crate::format::{BuildVolume, Built, Fact};
use crate::frame::EPOCH_UNIX_NS;

/// Options of a new F2FS volume. The defaults are those of mkfs.f2fs 1.15, but reproducible.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct F2fsBuild {
    /// Size in bytes; `None` for the smallest size that holds the tree and that Linux can write to.
    pub size: Option<u64>,
    /// Volume label.
    pub label: String,
    /// UUID, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx`; `None` for one computed from names, owners,
    /// sizes and times.
    pub uuid: Option<String>,
    /// Features by name.
    pub features: Vec<String>,
    /// Segments per section; `None` for 1.
    pub segments_per_section: Option<u32>,
    /// Sections per zone; `None` for 1.
    pub sections_per_zone: Option<u32>,
    /// Overprovisioning in per cent; `None` for the value that leaves the most space.
    pub overprovision_percent: Option<f64>,
    /// Further cold extensions.
    pub cold_extensions: Vec<String>,
    /// Further hot extensions.
    pub hot_extensions: Vec<String>,
    /// Sector size in the superblock, in bytes; `None` for 512.
    pub sector_size: Option<u32>,
    /// First sector of the volume on its disk, in units of 512 bytes.
    pub start_sector: u64,
    /// Whether the NAT has entries for a fifth of all blocks.
    pub extended_node_bitmap: bool,
    /// Whether node logs are at the end and data logs at the beginning.
    pub heap: bool,
    /// Encoding of casefolded names: `utf8` or `utf8:strict`.
    pub encoding: Option<String>,
    /// Time of inodes that are not from the tree, in seconds since 1970.
    pub time_seconds: u64,
    /// Owner and group of an empty volume's root.
    pub root_owner: (u32, u32),
}

fn wrong(option: &str, detail: impl std::fmt::Display) -> StackError {
    StackError::new("image", format!("{option}: {detail}"))
}

fn told(error: FsError) -> StackError {
    let source = error.source.as_ref().map_or_else(String::new, |source| format!(": {source}"));
    StackError::new("image", format!("{}{source}", error.detail))
}

/// The bytes of a UUID, with or without its hyphens.
fn uuid(text: &str) -> Option<[u8; 16]> {
    let digits: String = text.chars().filter(|letter| *letter != '-').collect();
    let is_hexadecimal = digits.len() == 32 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let number = u128::from_str_radix(&digits, 16).ok().filter(|_| is_hexadecimal)?;
    Some(number.to_be_bytes())
}

fn options(asked: &F2fsBuild) -> Result<MkfsOptions, StackError> {
    let encoding = match asked.encoding.as_deref() {
        None => None,
        Some("utf8") => Some(false),
        Some("utf8:strict") => Some(true),
        Some(other) => return Err(wrong("`encoding`", format!("{other:?}; expected utf8 or utf8:strict"))),
    };
    let mut names = asked.features.join(",");
    if encoding.is_some() {
        names += ",casefold";
    }
    let plain = MkfsOptions::default();
    let built = MkfsOptions {
        label: asked.label.clone(),
        uuid: match &asked.uuid {
            None => plain.uuid,
            Some(text) => uuid(text).ok_or_else(|| {
                wrong("`uuid`", format!("{text:?}; expected 32 hexadecimal digits, as uuidgen prints"))
            })?,
        },
        features: features_named(&names).map_err(|error| wrong("`features`", error.detail))?,
        segments_per_section: asked.segments_per_section.unwrap_or(plain.segments_per_section),
        sections_per_zone: asked.sections_per_zone.unwrap_or(plain.sections_per_zone),
        overprovision_percent: asked.overprovision_percent,
        cold_extensions: asked.cold_extensions.clone(),
        hot_extensions: asked.hot_extensions.clone(),
        sector_size: asked.sector_size.unwrap_or(plain.sector_size),
        start_sector: asked.start_sector,
        extended_node_bitmap: asked.extended_node_bitmap,
        heap: asked.heap,
        encoding,
        time_seconds: asked.time_seconds,
        root_owner: asked.root_owner,
        ..plain
    };
    built.check().map_err(|error| wrong("mkfs f2fs", error.detail))?;
    Ok(built)
}

impl BuildVolume for F2fsBuild {
    fn check(&self) -> Result<(), StackError> {
        options(self)?;
        match self.size.filter(|size| !size.is_multiple_of(512)) {
            Some(size) => Err(wrong("`size`", format!("{size} bytes; expected a multiple of 512"))),
            None => Ok(()),
        }
    }

    /// Makes the volume. Further error: the size is too small; the error names the smallest
    /// possible size.
    fn build(
        &self,
        tree: Option<&dyn SourceTree>,
        path: &Path,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<Built, StackError> {
        self.check()?;
        let mut options = options(self)?;
        let empty = EmptyTree::new(&options);
        let tree = tree.unwrap_or(&empty);
        if self.uuid.is_none() {
            options.uuid = uuid_of(tree.nodes(), self.size.unwrap_or(0), &self.label);
        }
        let mkfs = Mkfs::new(tree, options).map_err(told)?;
        let size = match self.size {
            Some(size) => size,
            None => mkfs.smallest_size().map_err(told)?,
        };
        mkfs.check_size(size).map_err(told)?;
        let failed = |error: std::io::Error| {
            wrong(&path.display().to_string(), format!("cannot be made {size} bytes long: {error}"))
        };
        let file = File::options().write(true).open(path).map_err(failed)?;
        // Make the whole file a hole first.
        file.set_len(0).and_then(|()| file.set_len(size)).map_err(failed)?;
        drop(file);
        let device = FileDevice::open(path, 512, Access::ReadWrite);
        let mut device = device.map_err(|error| StackError::new("image", error.to_string()))?;
        let report = mkfs.write(&mut device, &Clock::starting_at(EPOCH_UNIX_NS), progress).map_err(told)?;
        Ok(built(&report))
    }
}

fn built(report: &MkfsReport) -> Built {
    let line = format!(
        "{} names, {} of files in a volume of {}, {} of {} segments used",
        report.names,
        format_bytes(report.content_bytes),
        format_bytes(report.size),
        report.used_segments,
        report.segments,
    );
    let facts = vec![
        Fact::member("format", super::NAME),
        Fact::member("size", report.size),
        Fact::member("inodes", report.inodes),
        Fact::member("names", report.names),
        Fact::member("content_bytes", report.content_bytes),
        Fact::member("node_blocks", report.node_blocks),
        Fact::member("data_blocks", report.data_blocks),
        Fact::member("user_blocks", report.user_blocks),
        Fact::member("segments", report.segments),
        Fact::member("used_segments", report.used_segments),
        Fact::member("overprovision_segments", report.overprovision_segments),
    ];
    Built { line, facts }
}

//! Facts about a UBI device and its volumes for `info`.

use nandkit_flash::Flash;
use nandkit_flash_image::regions::{PROBE_BYTES, stranger};
use nandkit_ubi::layout::{LAYOUT_LEBS, flag};
use nandkit_ubi::{Ubi, Volume};
use nandkit_units::{ReadInto, format_bytes};
use nandkit_vfs::FileSystem;
use serde_json::{Value, json};

use super::NAME;
use crate::format::Fact;

/// The facts of a device, then one per volume.
pub(super) fn facts<F: Flash>(device: &Ubi<F>) -> Vec<Fact> {
    let geometry = device.geometry();
    let shape = format!(
        "UBI, LEBs of {} bytes in PEBs of {}; volume identifiers at {}, data at {}",
        geometry.leb_size(),
        format_bytes(geometry.peb_size.into()),
        geometry.vid_offset,
        geometry.data_offset
    );
    let volumes: Vec<Value> = device.volumes().iter().map(|volume| as_json(device, volume)).collect();
    let mut facts = vec![
        Fact::new("file system", shape, "kind", NAME)
            .and("peb_size", geometry.peb_size)
            .and("leb_size", geometry.leb_size())
            .and("vid_offset", geometry.vid_offset)
            .and("data_offset", geometry.data_offset)
            .and("image_sequence", device.image_sequence()),
        blocks(device),
        erases(device),
        Fact::member("volumes", volumes),
    ];
    facts.extend(device.volumes().iter().map(|volume| Fact::line("volume", described(device, volume))));
    facts
}

/// How many PEBs hold what.
fn blocks<F: Flash>(device: &Ubi<F>) -> Fact {
    let counts = device.counts();
    let mut text = format!("{}: {} used, {} free", counts.total, counts.used, counts.free + counts.erased);
    for (count, what) in [(counts.stale, "out of date"), (counts.damaged, "damaged"), (counts.bad, "bad")] {
        if count > 0 {
            text.push_str(&format!(", {count} {what}"));
        }
    }
    if counts.has_fastmap {
        text.push_str("; with a fastmap, which is not needed to read");
    }
    Fact::new("PEBs", text, "pebs", counts.total)
        .and("pebs_used", counts.used)
        .and("pebs_free", counts.free + counts.erased)
        .and("pebs_stale", counts.stale)
        .and("pebs_damaged", counts.damaged)
        .and("pebs_bad", counts.bad)
        .and("has_fastmap", counts.has_fastmap)
}

/// The wear of the flash, as the erase counters tell it.
fn erases<F: Flash>(device: &Ubi<F>) -> Fact {
    let counts = device.counts();
    let mean = counts.erases_sum as f64 / f64::from(counts.counted.max(1));
    let text = match counts.counted {
        0 => "unknown".to_owned(),
        _ => format!("{} to {}, {mean:.1} on average", counts.erases_min, counts.erases_max),
    };
    Fact::new("erases per PEB", text, "erases_min", counts.erases_min)
        .and("erases_max", counts.erases_max)
        .and("erases_mean", mean)
}

/// A volume in a line: `0 "kernel", static, 300000 bytes in 3 LEBs: SquashFS, version 4, xz`.
fn described<F: Flash>(device: &Ubi<F>, volume: &Volume) -> String {
    let record = &volume.record;
    let mut text = format!(
        "{} '{}': {}, {} bytes in {} of {} LEBs",
        volume.number,
        volume.file_name,
        record.volume_type.name(),
        volume.length(),
        volume.mapped(),
        record.reserved_pebs
    );
    if record.flags & flag::AUTORESIZE != 0 {
        text.push_str(", grows to all free PEBs at its first attach");
    }
    if record.is_updating {
        text.push_str(", its update was interrupted");
    }
    if let Some(content) = content(device, volume) {
        text.push_str(&format!("; begins with {}", content.text));
    }
    text
}

fn as_json<F: Flash>(device: &Ubi<F>, volume: &Volume) -> Value {
    let record = &volume.record;
    let content = content(device, volume);
    json!({
        "number": volume.number,
        "name": volume.file_name,
        "type": record.volume_type.name(),
        "bytes": volume.length(),
        "leb_size": volume.leb_size,
        "lebs_mapped": volume.mapped(),
        "pebs_reserved": record.reserved_pebs,
        "alignment": record.alignment,
        "is_autoresize": record.flags & flag::AUTORESIZE != 0,
        "is_updating": record.is_updating,
        "is_in_table": volume.is_in_table,
        "content": content.as_ref().map(|content| content.kind),
        "content_bytes": content.as_ref().and_then(|content| content.size),
    })
}

/// What a volume begins with.
struct Content {
    kind: &'static str,
    text: String,
    size: Option<u64>,
}

/// What a volume begins with, if it is known.
fn content<F: Flash>(device: &Ubi<F>, volume: &Volume) -> Option<Content> {
    let inode = device.lookup(device.root(), volume.file_name.as_bytes()).ok()?;
    let mut beginning = vec![0; PROBE_BYTES];
    let length = device.read(inode, 0, ReadInto::Bytes(&mut beginning)).ok()?;
    let found = stranger(beginning.get(..length)?)?;
    let mut text = found.kind.to_owned();
    if !found.detail.is_empty() {
        text.push_str(&format!(", {}", found.detail));
    }
    if let Some(size) = found.size {
        text.push_str(&format!(", {size} bytes"));
    }
    Some(Content { kind: found.kind, text, size: found.size })
}

/// Notes about a device: whether it was made for a larger flash.
pub(super) fn notes<F: Flash>(device: &Ubi<F>) -> Vec<String> {
    let counts = device.counts();
    let volumes: u64 = device.volumes().iter().map(|volume| u64::from(volume.record.reserved_pebs)).sum();
    let reserved = volumes + u64::from(LAYOUT_LEBS);
    let here = u64::from(counts.total - counts.bad);
    let mut notes = Vec::new();
    if reserved > here {
        notes.push(format!(
            "volumes and their table reserve {reserved} PEBs, {here} are here: usual in an image that is to be flashed; in a dump of a whole flash the end is missing"
        ));
    }
    notes
}

//! `nandkit info`

use nandkit_record::ErasesPerBlock;
use nandkit_stack::image::{
    self, ByteOrder, ChipInfo, Detection, DumpSummary, FatInfo, Image, Layer, RegionInfo, SegmentsShown, Volume,
};
use nandkit_units::{Nanos, format_bytes};
use serde_json::{Value, json};

use super::{extents, info_f2fs, input, segments, shown};
use crate::args::{InfoArguments, SegmentsName};
use crate::failure::Failure;
use crate::output;

/// Says what an image is and what it holds.
pub fn info(arguments: &InfoArguments) -> Result<(), Failure> {
    let found = image::inspect(&arguments.image.image, &arguments.image.options()).map_err(input)?;
    let segments = arguments.segments.map(|_| image::segments(&arguments.image.image, &arguments.image.options()));
    let segments = segments.transpose().map_err(input)?;
    let extents = arguments.extents.as_deref().map(|path| extents::of(&arguments.image, path)).transpose()?;
    if arguments.json {
        let mut value = match &found {
            Image::Chip(chip) => chip_json(chip),
            Image::Dump(dump) => dump_json(dump),
        };
        if let (Some(map), Some(segments)) = (value.as_object_mut(), &segments) {
            map.insert("segment_map".to_owned(), segments::json(segments));
        }
        if let (Some(map), Some(extents)) = (value.as_object_mut(), &extents) {
            map.insert("file".to_owned(), extents::json(extents));
        }
        return output::json(&value);
    }
    let lines = match &found {
        Image::Chip(chip) => chip_lines(chip),
        Image::Dump(dump) => dump_lines(dump),
    };
    let width = lines.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    // Names of regions come from the image.
    let mut text: String =
        lines.iter().map(|(name, value)| format!("{name:width$}  {}\n", shown(value.as_bytes()))).collect();
    if let Some((map, name)) = segments.zip(arguments.segments) {
        let shown = if name == SegmentsName::Fill { SegmentsShown::Fill } else { SegmentsShown::Kind };
        text += &segments::text(&map, shown, arguments.width.map_or_else(segments::columns, usize::from));
    }
    if let Some(extents) = &extents {
        text += &extents::text(extents);
    }
    output::text(&text)
}

fn dump_lines(dump: &DumpSummary) -> Vec<Line> {
    let mut lines = Vec::new();
    if let Some(region) = &dump.region {
        lines.push(("region", region_text(region)));
    }
    lines.push(("file", format!("{} bytes, {}", dump.file_bytes, format_bytes(dump.file_bytes))));
    match (&dump.f2fs, &dump.fat, dump.detections.first()) {
        (Some(f2fs), ..) => lines.extend(info_f2fs::lines(f2fs)),
        (None, Some(fat), _) => lines.extend(fat_lines(fat)),
        (None, None, Some(best)) => lines.push(("file system", detection_text(best))),
        (None, None, None) => {
            lines.push(("file system", "none that can be opened as it is; see the regions".to_owned()))
        }
    }
    if let Some(best) = dump.detections.first() {
        lines.push(("score", format!("{} of 1200", best.points)));
        lines.extend(best.why.iter().map(|why| ("because", why.clone())));
    }
    lines.extend(
        dump.detections
            .iter()
            .skip(1)
            .map(|other| ("or", format!("{}, score {}", detection_text(other), other.points))),
    );
    if !dump.bad_blocks.is_empty() {
        let blocks: Vec<String> = dump.bad_blocks.iter().take(20).map(ToString::to_string).collect();
        let more = if dump.bad_blocks.len() > 20 { ", ..." } else { "" };
        lines.push(("bad blocks", format!("{}: {}{more}", dump.bad_blocks.len(), blocks.join(", "))));
    }
    lines.extend(dump.notes.iter().map(|note| ("note", note.clone())));
    for region in &dump.regions {
        lines.push(("region", region_text(region)));
        lines.extend(region.notes.iter().map(|note| ("", note.clone())));
    }
    lines
}

fn detection_text(found: &Detection) -> String {
    let notes = if found.notes.is_empty() { String::new() } else { format!("; {}", found.notes.join(", ")) };
    format!("{}, {}{notes}", found.format, found.layout)
}

fn region_text(region: &RegionInfo) -> String {
    let opens = region.opens_as.map_or_else(String::new, |format| format!(", opens as {format}"));
    format!(
        "{} \"{}\" at {:#x}, {}: {} (from {}){opens}",
        region.number,
        region.name,
        region.offset,
        format_bytes(region.size),
        region.kind,
        region.source
    )
}

fn dump_json(dump: &DumpSummary) -> Value {
    let volume = match (&dump.f2fs, &dump.fat, dump.detections.first()) {
        (Some(f2fs), ..) => info_f2fs::json(f2fs),
        (None, Some(fat), _) => fat_json(fat),
        (None, None, Some(best)) => json!({"kind": best.format}),
        (None, None, None) => Value::Null,
    };
    json!({
        "image": dump.format(),
        "file_bytes": dump.file_bytes,
        "volume": volume,
        "detections": dump.detections.iter().map(detection_json).collect::<Vec<_>>(),
        "region": dump.region.as_ref().map(region_json),
        "regions": dump.regions.iter().map(region_json).collect::<Vec<_>>(),
        "bad_blocks": dump.bad_blocks,
        "notes": dump.notes,
    })
}

fn detection_json(found: &Detection) -> Value {
    let order = found.byte_order.map(|order| match order {
        ByteOrder::Little => "little",
        ByteOrder::Big => "big",
    });
    json!({
        "format": found.format,
        "points": found.points,
        "why": found.why,
        "notes": found.notes,
        "layout": found.layout,
        "erase_size": found.erase_size,
        "erase_sizes_that_fit": found.erase_sizes,
        "page_size": found.page_size,
        "oob_size": found.oob_size,
        "endian": order,
    })
}

fn region_json(region: &RegionInfo) -> Value {
    json!({
        "number": region.number,
        "name": region.name,
        "offset": region.offset,
        "size": region.size,
        "kind": region.kind,
        "source": region.source,
        "opens_as": region.opens_as,
        "notes": region.notes,
    })
}

type Line = (&'static str, String);

fn chip_lines(chip: &ChipInfo) -> Vec<Line> {
    let geometry = chip.spec.geometry.build();
    let erases = erases(chip);
    let name = if chip.spec.name.is_empty() { "a chip without a name" } else { &chip.spec.name };
    let title = if chip.spec.title.is_empty() { String::new() } else { format!(": {}", chip.spec.title) };
    let pages = u64::from(geometry.blocks) * u64::from(geometry.pages_per_block);
    let mut lines = vec![
        ("chip", format!("{name}{title}")),
        (
            "geometry",
            format!(
                "{} blocks of {} pages of {} + {} bytes, {}",
                geometry.blocks,
                geometry.pages_per_block,
                geometry.page_size,
                geometry.oob_size,
                format_bytes(geometry.capacity())
            ),
        ),
        ("store", chip.store.name().to_string()),
        ("seed", chip.seed.to_string()),
        ("last instant", Nanos(chip.last_instant_ns).to_string()),
        (
            "erases per block",
            format!(
                "min {}, p10 {}, p50 {}, p90 {}, max {}; {} never erased",
                erases.min, erases.p10, erases.p50, erases.p90, erases.max, erases.never
            ),
        ),
        ("bad blocks", format!("{} of {}", chip.bad_blocks, geometry.blocks)),
        ("programmed pages", format!("{} of {pages}", chip.programmed_pages)),
    ];
    lines.push((
        "translation layer",
        match &chip.layer {
            Layer::None => "none".to_string(),
            Layer::Known { kind, clean: true } => (*kind).to_string(),
            Layer::Known { kind, clean: false } => format!("{kind}, not closed: the next run recovers it"),
            Layer::Unknown(why) => format!("unknown: {why}"),
        },
    ));
    match &chip.volume {
        Volume::None => lines.push(("file system", "none".to_string())),
        Volume::Fat(fat) => lines.extend(fat_lines(fat)),
        Volume::F2fs { label, total_bytes, free_bytes } => {
            lines.push(("file system", "f2fs".to_string()));
            lines.push(("label", if label.is_empty() { "none".to_string() } else { label.clone() }));
            lines.push(("free", format!("{} of {}", format_bytes(*free_bytes), format_bytes(*total_bytes))));
        }
        Volume::Jffs2 { total_bytes, free_bytes } => {
            lines.push(("file system", "jffs2".to_string()));
            lines.push(("free", format!("{} of {}", format_bytes(*free_bytes), format_bytes(*total_bytes))));
        }
        Volume::Unknown(why) => lines.push(("file system", format!("unknown: {why}"))),
    }
    lines
}

fn fat_lines(fat: &FatInfo) -> Vec<Line> {
    let label = if fat.label.is_empty() { "none".to_string() } else { fat.label.clone() };
    vec![
        (
            "file system",
            format!(
                "{}, sectors of {} bytes, clusters of {}",
                fat.kind,
                fat.sector_size,
                format_bytes(fat.cluster_size.into())
            ),
        ),
        ("label", label),
        ("free", format!("{} of {}", format_bytes(fat.free_bytes), format_bytes(fat.total_bytes))),
    ]
}

fn erases(chip: &ChipInfo) -> ErasesPerBlock {
    ErasesPerBlock::of(chip.erases.iter().map(|erases| u64::from(*erases)).collect())
}

fn chip_json(chip: &ChipInfo) -> Value {
    let layer = match &chip.layer {
        Layer::None => Value::Null,
        Layer::Known { kind, clean } => json!({"kind": kind, "clean": clean}),
        Layer::Unknown(why) => json!({"kind": "unknown", "why": why}),
    };
    let volume = match &chip.volume {
        Volume::None => Value::Null,
        Volume::Fat(fat) => fat_json(fat),
        Volume::F2fs { label, total_bytes, free_bytes } => {
            json!({"kind": "f2fs", "label": label, "total_bytes": total_bytes, "free_bytes": free_bytes})
        }
        Volume::Jffs2 { total_bytes, free_bytes } => {
            json!({"kind": "jffs2", "total_bytes": total_bytes, "free_bytes": free_bytes})
        }
        Volume::Unknown(why) => json!({"kind": "unknown", "why": why}),
    };
    json!({
        "image": "chip",
        "chip": chip.spec,
        "store": chip.store.name(),
        "seed": chip.seed,
        "last_instant_ns": chip.last_instant_ns,
        "erases_per_block": erases(chip),
        "bad_blocks": chip.bad_blocks,
        "programmed_pages": chip.programmed_pages,
        "translation_layer": layer,
        "volume": volume,
    })
}

fn fat_json(fat: &FatInfo) -> Value {
    json!({
        "kind": fat.kind,
        "label": fat.label,
        "sector_size": fat.sector_size,
        "cluster_size": fat.cluster_size,
        "total_bytes": fat.total_bytes,
        "free_bytes": fat.free_bytes,
    })
}

//! `nandkit info` and `nandkit check`

use nandkit_record::ErasesPerBlock;
use nandkit_stack::image::{self, ChipInfo, FatInfo, Image, Layer, Volume};
use nandkit_units::{Nanos, format_bytes};
use serde_json::{Value, json};

use crate::args::{CheckArguments, InfoArguments};
use crate::failure::Failure;
use crate::output;

fn input(error: nandkit_stack::StackError) -> Failure {
    // The message begins with the path: the key in a spec would say less.
    Failure::Input(error.detail)
}

/// Says what an image is and what it holds.
pub fn info(arguments: &InfoArguments) -> Result<(), Failure> {
    let found = image::inspect(&arguments.image).map_err(input)?;
    if arguments.json {
        return output::json(&match &found {
            Image::Chip(chip) => chip_json(chip),
            Image::Fat(fat) => json!({"image": "fat", "volume": fat_json(fat)}),
        });
    }
    let lines = match &found {
        Image::Chip(chip) => chip_lines(chip),
        Image::Fat(fat) => fat_lines(fat),
    };
    let width = lines.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let text: String = lines.iter().map(|(name, value)| format!("{name:width$}  {value}\n")).collect();
    output::text(&text)
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

/// Checks the FAT volume of an image.
pub fn check(arguments: &CheckArguments) -> Result<(), Failure> {
    let report = image::check(&arguments.image).map_err(input)?;
    let findings: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
    if arguments.json {
        let list: Vec<Value> = report
            .findings
            .iter()
            .map(|finding| json!({"kind": format!("{:?}", finding.kind), "detail": finding.detail}))
            .collect();
        output::json(&json!({
            "findings": list,
            "files": report.files,
            "directories": report.directories,
            "clusters_used": report.clusters_used,
            "clusters_free": report.clusters_free,
            "clusters_bad": report.clusters_bad,
        }))?;
    } else {
        let mut text: String = findings.iter().map(|finding| format!("{finding}\n")).collect();
        text += &format!(
            "{} files in {} directories; clusters: {} used, {} free, {} bad\n",
            report.files, report.directories, report.clusters_used, report.clusters_free, report.clusters_bad
        );
        output::text(&text)?;
    }
    match findings.len() {
        0 => Ok(()),
        1 => Err(Failure::Check(format!("{}: something is wrong with the volume", arguments.image.display()))),
        count => {
            Err(Failure::Check(format!("{}: {count} things are wrong with the volume", arguments.image.display())))
        }
    }
}

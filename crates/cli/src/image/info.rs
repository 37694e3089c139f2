//! `nandkit info`: identifies an image and shows its content. Each fact is defined once, here or by
//! the volume's format, and is printed as a line and as JSON.

use nandkit_record::ErasesPerBlock;
use nandkit_stack::image::fact::{self, or_none};
use nandkit_stack::image::{
    self, ByteOrder, ChipInfo, ChipVolume, Detection, DumpSummary, EccReport, Fact, Image, Layer, RegionInfo,
    SegmentsShown,
};
use nandkit_units::{Nanos, format_bytes};
use serde_json::{Value, json};

use super::{extents, input, segments, shown, verdict, with_flags};
use crate::args::{InfoArguments, SegmentsName};
use crate::failure::Failure;
use crate::output;

/// Largest number of bad blocks that a line names.
const BAD_BLOCKS_TOLD: usize = 20;

/// Prints what an image is and what it holds.
pub fn info(arguments: &InfoArguments) -> Result<(), Failure> {
    let (path, options) = (&arguments.image.image, arguments.image.options());
    let found = image::inspect(path, &options).map_err(input)?;
    let segments = arguments.segments.map(|_| image::segments(path, &options)).transpose().map_err(input)?;
    let extents = arguments.extents.as_deref().map(|path| extents::of(&arguments.image, path)).transpose()?;
    let mut facts = match &found {
        Image::Chip(chip) => chip_facts(chip),
        Image::Dump(dump) => dump_facts(dump),
    };
    // As for every command that reads, content in other parts of the image counts as missing.
    let elsewhere = match &found {
        Image::Chip(_) => 0,
        Image::Dump(dump) => dump.files_in_other_parts,
    };
    let what = ("content of one file is in another part", "files have content in other parts");
    let verdict = || verdict(&arguments.image, elsewhere, what);
    if arguments.json {
        facts.extend(segments.iter().map(|segments| Fact::member("segment_map", segments.json())));
        facts.extend(extents.iter().map(|extents| Fact::member("file", extents::json(extents))));
        output::json(&fact::json(&facts))?;
        return verdict();
    }
    let width = fact::lines(&facts).map(|(label, _)| label.len()).max().unwrap_or(0);
    // Names of regions come from the image.
    let mut text: String =
        fact::lines(&facts).map(|(label, text)| format!("{label:width$}  {}\n", shown(text.as_bytes()))).collect();
    if let Some((map, name)) = segments.zip(arguments.segments) {
        let shown = if name == SegmentsName::Fill { SegmentsShown::Fill } else { SegmentsShown::Kind };
        text += &map.draw(shown, arguments.width.map_or_else(segments::columns, usize::from));
    }
    if let Some(extents) = &extents {
        text += &extents::text(extents);
    }
    output::text(&text)?;
    verdict()
}

fn dump_facts(dump: &DumpSummary) -> Vec<Fact> {
    let notes: Vec<String> = dump.notes.iter().map(|note| with_flags(note)).collect();
    let mut facts = vec![
        Fact::member("image", dump.format()),
        Fact::member("region", dump.region.as_ref().map(region_json)),
        Fact::member("regions", dump.regions.iter().map(region_json).collect::<Vec<_>>()),
        Fact::member("detections", dump.detections.iter().map(detection_json).collect::<Vec<_>>()),
        Fact::member("bad_blocks", dump.bad_blocks.clone()),
        Fact::member("files_in_other_parts", dump.files_in_other_parts as u64),
        Fact::member("notes", notes.clone()),
    ];
    facts.extend(dump.region.as_ref().map(|region| Fact::line("region", region_text(region))));
    let length = format!("{} bytes, {}", dump.file_bytes, format_bytes(dump.file_bytes));
    facts.push(Fact::new("file", length, "file_bytes", dump.file_bytes));
    match dump.detections.first() {
        Some(best) => {
            facts.extend(volume_facts(&dump.volume));
            facts.push(Fact::line("score", format!("{} of 1200", best.points)));
            facts.extend(best.why.iter().map(|why| Fact::line("because", why.as_str())));
        }
        None => {
            let none = "none that can be opened directly; see the regions";
            facts.push(Fact::new("file system", none, "volume", Value::Null));
        }
    }
    let others = dump.detections.iter().skip(1);
    facts.extend(others.map(|other| Fact::line("or", format!("{}, score {}", other.text(), other.points))));
    facts.extend(dump.ecc.iter().flat_map(ecc_facts));
    facts.extend(bad_blocks(&dump.bad_blocks).map(|text| Fact::line("bad blocks", text)));
    facts.extend(notes.into_iter().map(|note| Fact::line("note", note)));
    for region in &dump.regions {
        facts.push(Fact::line("region", region_text(region)));
        facts.extend(region.notes.iter().chain(&region.doubts).map(|note| Fact::line("", with_flags(note))));
    }
    facts
}

/// The facts of a volume: its lines, and its JSON members in an object.
fn volume_facts(volume: &[Fact]) -> Vec<Fact> {
    let lines = fact::lines(volume).map(|(label, text)| Fact::line(label, text));
    lines.chain([Fact::member("volume", fact::json(volume))]).collect()
}

/// The ECC statistics: layout, code words, corrected and uncorrectable bits.
fn ecc_facts(report: &EccReport) -> [Fact; 2] {
    let (layout, programmed) = (&report.layout, report.codewords - report.erased);
    let text = format!(
        "{programmed} code words: {} bits corrected in {}, {} beyond the {} bits that are corrected",
        report.corrected_bits,
        report.corrected,
        report.uncorrectable,
        layout.correctable()
    );
    let listed: Vec<Value> = report
        .listed
        .iter()
        .map(|word| {
            let data: Vec<[u64; 2]> = word.data.iter().map(|range| [range.start, range.end - range.start]).collect();
            json!({
                "block": word.page.block.0, "page": word.page.page, "codeword": word.codeword,
                "offsets_and_sizes": data,
            })
        })
        .collect();
    let members = json!({
        "layout": layout.name(),
        "title": layout.title(),
        "correctable_bits": layout.correctable(),
        "codewords": report.codewords,
        "codewords_erased": report.erased,
        "codewords_corrected": report.corrected,
        "bits_corrected": report.corrected_bits,
        "codewords_uncorrectable": report.uncorrectable,
        "uncorrectable": listed,
    });
    [Fact::line("OOB layout", format!("{}: {}", layout.name(), layout.title())), Fact::new("ECC", text, "ecc", members)]
}

fn bad_blocks(blocks: &[u32]) -> Option<String> {
    let told: Vec<String> = blocks.iter().take(BAD_BLOCKS_TOLD).map(ToString::to_string).collect();
    let more = if blocks.len() > BAD_BLOCKS_TOLD { ", ..." } else { "" };
    (!blocks.is_empty()).then(|| format!("{}: {}{more}", blocks.len(), told.join(", ")))
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
        "doubts": region.doubts,
    })
}

fn chip_facts(chip: &ChipInfo) -> Vec<Fact> {
    let geometry = chip.spec.geometry.build();
    let erases = ErasesPerBlock::of(chip.erases.iter().map(|erases| u64::from(*erases)).collect());
    let name = if chip.spec.name.is_empty() { "a chip without a name" } else { &chip.spec.name };
    let title = if chip.spec.title.is_empty() { String::new() } else { format!(": {}", chip.spec.title) };
    let pages = u64::from(geometry.blocks) * u64::from(geometry.pages_per_block);
    let shape = format!(
        "{} blocks of {} pages of {} + {} bytes, {}",
        geometry.blocks,
        geometry.pages_per_block,
        geometry.page_size,
        geometry.oob_size,
        format_bytes(geometry.capacity())
    );
    let wear = format!(
        "min {}, p10 {}, p50 {}, p90 {}, max {}; {} never erased",
        erases.min, erases.p10, erases.p50, erases.p90, erases.max, erases.never
    );
    let (bad, programmed) = (chip.bad_blocks, chip.programmed_pages);
    let (store, last) = (chip.store.name(), chip.last_instant_ns);
    let mut facts = vec![
        Fact::member("image", "chip"),
        Fact::new("chip", format!("{name}{title}"), "chip", json!(chip.spec)),
        Fact::line("geometry", shape),
        Fact::new("store", store, "store", store),
        Fact::new("seed", chip.seed.to_string(), "seed", chip.seed),
        Fact::new("last instant", Nanos(last).to_string(), "last_instant_ns", last),
        Fact::new("erases per block", wear, "erases_per_block", json!(erases)),
        Fact::new("bad blocks", format!("{bad} of {}", geometry.blocks), "bad_blocks", bad),
        Fact::new("programmed pages", format!("{programmed} of {pages}"), "programmed_pages", programmed),
        layer_fact(&chip.layer),
    ];
    match &chip.volume {
        ChipVolume::None => facts.push(Fact::new("file system", or_none(""), "volume", Value::Null)),
        ChipVolume::Known(volume) => facts.extend(volume_facts(volume)),
        ChipVolume::Unknown(why) => {
            let unknown = json!({"kind": "unknown", "why": why});
            facts.push(Fact::new("file system", format!("unknown: {why}"), "volume", unknown));
        }
    }
    facts
}

fn layer_fact(layer: &Layer) -> Fact {
    let (text, value) = match layer {
        Layer::None => (or_none(""), Value::Null),
        Layer::Known { kind, clean } => {
            let open = if *clean { "" } else { ", not closed: the next run recovers it" };
            (format!("{kind}{open}"), json!({"kind": kind, "clean": clean}))
        }
        Layer::Unknown(why) => (format!("unknown: {why}"), json!({"kind": "unknown", "why": why})),
    };
    Fact::new("translation layer", text, "translation_layer", value)
}

//! Facts about a UBIFS volume for `info`.

use nandkit_ubifs::Ubifs;

use super::NAME;
use crate::format::Fact;

/// The facts of a volume.
pub fn facts(volume: &Ubifs) -> Vec<Fact> {
    let facts = volume.facts();
    let shape = format!(
        "UBIFS, format {}, {} of up to {} LEBs of {} bytes, written in units of {}",
        facts.format, facts.leb_count, facts.leb_count_max, facts.leb_size, facts.min_io_size
    );
    let journal = match facts.replayed {
        0 => "nothing to replay".to_owned(),
        count => format!("{count} nodes written since the last commit, replayed in memory"),
    };
    let uuid: String = facts.uuid.iter().map(|byte| format!("{byte:02x}")).collect();
    vec![
        Fact::new("file system", shape, "kind", NAME)
            .and("format_version", facts.format)
            .and("leb_size", facts.leb_size)
            .and("leb_count", facts.leb_count)
            .and("leb_count_max", facts.leb_count_max)
            .and("min_io_size", facts.min_io_size),
        Fact::new("journal", journal, "replayed_nodes", facts.replayed).and("is_dirty", facts.is_dirty),
        Fact::new("uuid", uuid.clone(), "uuid", uuid),
    ]
}

/// Notes about a volume: whether a part of it cannot be shown.
pub fn notes(volume: &Ubifs) -> Vec<String> {
    let encrypted = volume.facts().may_be_encrypted;
    let note = "the volume may hold encrypted files, whose content and names are not shown";
    encrypted.then(|| note.to_owned()).into_iter().collect()
}

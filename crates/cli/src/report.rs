//! `nandkit report`: records that are there to tables and pages; and the pages of other commands.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use nandkit_record::{RunRecord, read_lines};
use nandkit_report::html::html;
use nandkit_report::page::{Item, Page, changes, claims, page};
use nandkit_report::{Align, Table, comparison};
use serde_json::Value;

use crate::args::{PageOptions, ReportArguments};
use crate::failure::Failure;
use crate::image::new_file::NewFile;
use crate::output;

/// Bytes of a file of records at the most: what is larger is something else.
const RECORDS_MAX: u64 = 1 << 30;

/// The content of the files that a report is made from.
#[derive(Default)]
struct Held {
    records: Vec<RunRecord>,
    claims: Vec<Value>,
}

/// Makes tables and pages of records.
pub fn report(arguments: &ReportArguments) -> Result<(), Failure> {
    check(&arguments.page)?;
    let held = read(&arguments.records)?;
    let is_mixed = !held.records.is_empty() && !held.claims.is_empty();
    if is_mixed || (!held.claims.is_empty() && !arguments.against.is_empty()) {
        let detail =
            "claims and records of runs make no common page; expected either, and records alone with --against";
        return Err(Failure::Input(detail.to_string()));
    }
    let told = if !held.claims.is_empty() {
        claims("Claims beside measured figures", &held.claims, &[])
    } else if arguments.against.is_empty() {
        output::text(&comparison(&held.records, output::style()))?;
        return write(&arguments.page, || page("Results", &held.records, &[]));
    } else {
        let before = read(&arguments.against)?;
        if !before.claims.is_empty() {
            return Err(Failure::Input("--against: these are claims; expected records of runs".to_string()));
        }
        changes("What has changed", &before.records, &held.records)
    };
    output::text(&text(&told))?;
    write(&arguments.page, || told)
}

/// Refuses a page that cannot be written, before anything is run.
pub fn check(options: &PageOptions) -> Result<(), Failure> {
    options.html.as_deref().map_or(Ok(()), |path| NewFile::check(path, options.force, Some("--force")))
}

/// Writes the page, where one is asked for, whole or not at all.
pub fn write(options: &PageOptions, page: impl FnOnce() -> Page) -> Result<(), Failure> {
    let Some(path) = options.html.as_deref() else { return Ok(()) };
    check(options)?;
    let _lock = if options.force { NewFile::lock(path)? } else { None };
    let mut file = NewFile::begin(path)?;
    let written = file.file().write_all(html(&page()).as_bytes());
    written.map_err(|error| Failure::Input(format!("{}: cannot write: {error}", path.display())))?;
    file.keep(options.force)
}

/// The first paragraphs of a page and its tables, as text.
fn text(page: &Page) -> String {
    let mut text = page.lead.iter().map(|line| format!("{line}\n")).collect::<String>();
    for section in &page.sections {
        let tables = section.items.iter().filter_map(|item| match item {
            Item::Table(table) => Some(table),
            _ => None,
        });
        for table in tables {
            let align = |is_number| if is_number { Align::Right } else { Align::Left };
            let mut lines =
                Table::new(table.columns.iter().map(|column| (column.head.as_str(), align(column.is_number))));
            table.rows.iter().for_each(|row| lines.row(row.iter().map(|cell| cell.text.as_str())));
            text += &format!("\n{}\n{}", section.title, lines.text());
        }
    }
    text
}

/// The records or claims of these files, all in one.
fn read(files: &[PathBuf]) -> Result<Held, Failure> {
    let mut all = Held::default();
    for file in files {
        let held = read_one(file).map_err(|error| Failure::Input(format!("{}: {error}", file.display())))?;
        all.records.extend(held.records);
        all.claims.extend(held.claims);
    }
    Ok(all)
}

fn read_one(file: &Path) -> Result<Held, String> {
    let mut text = Vec::new();
    let read = if file.as_os_str() == "-" {
        std::io::stdin().lock().take(RECORDS_MAX + 1).read_to_end(&mut text)
    } else {
        std::fs::File::open(file).and_then(|file| file.take(RECORDS_MAX + 1).read_to_end(&mut text))
    };
    read.map_err(|error| error.to_string())?;
    if text.len() as u64 > RECORDS_MAX {
        return Err(format!("it has more than {RECORDS_MAX} bytes"));
    }
    // A list of records or of claims, the object of compare --json, or a record on each line.
    let list = match serde_json::from_slice::<Value>(&text) {
        Ok(Value::Array(list)) => Some(list),
        Ok(Value::Object(mut fields)) if !fields.contains_key("schema") => match fields.remove("records") {
            Some(Value::Array(list)) => Some(list),
            _ => None,
        },
        _ => None,
    };
    let held = match list {
        Some(list) if list.iter().all(|entry| entry.get("claim").is_some()) => Held { claims: list, ..Held::default() },
        Some(list) => {
            let lines: Vec<String> = list.iter().map(Value::to_string).collect();
            let records = read_lines(lines.join("\n").as_bytes());
            let records = records.map_err(|error| format!("entry {}: {}", error.line, error.detail))?;
            Held { records, ..Held::default() }
        }
        None => Held { records: read_lines(text.as_slice()).map_err(|error| error.to_string())?, ..Held::default() },
    };
    if held.records.is_empty() && held.claims.is_empty() {
        return Err("no record in it; expected what run --out, exec --json or reproduce --json write".to_string());
    }
    Ok(held)
}

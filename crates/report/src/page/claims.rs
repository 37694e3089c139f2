//! The page of a reproduction: claims of papers beside what was measured.

use serde_json::Value;

use super::{Cell, Column, Heat, Item, Page, Quantity, Section, Table};
use crate::tree;

/// The key of a claim's tables among what was measured.
const TABLES: &str = "tables";
/// Columns of figures side by side from which on they are a matrix.
const MATRIX: usize = 3;

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn holds(claim: &Value) -> bool {
    claim.get("holds").and_then(Value::as_bool).unwrap_or(false)
}

/// The verdict over all settings in which the claim is judged.
fn verdict(claim: &Value) -> &'static str {
    let settings = claim.get("settings").and_then(Value::as_object);
    match holds(claim) {
        true => "holds",
        false if settings.into_iter().flatten().any(|(_, holds)| holds.as_bool() == Some(true)) => {
            "holds in some settings"
        }
        false => "does not hold",
    }
}

/// The page of these claims, as `nandkit reproduce --json` writes them, with further sentences that
/// are said of them.
pub fn claims(title: &str, claims: &[Value], notes: &[String]) -> Page {
    let holding = claims.iter().filter(|claim| holds(claim)).count();
    let mut lead = vec![format!("{holding} of {} claims hold.", claims.len())];
    lead.extend(notes.iter().cloned());
    let mut sections = vec![Section { title: "All claims".to_string(), items: vec![Item::Table(all(claims))] }];
    sections.extend(claims.iter().map(details));
    let lines: Vec<String> = claims.iter().map(Value::to_string).collect();
    Page { title: title.to_string(), lead, sections, data: format!("[{}]", lines.join(",\n")) }
}

fn all(claims: &[Value]) -> Table {
    let columns = ["claim", "what it says", "paper", "ours", "verdict"].map(Column::text).to_vec();
    let row = |claim: &Value| {
        let figures = |key: &str| Cell::text(in_short(claim.get(key).unwrap_or(&Value::Null)));
        vec![
            Cell::text(text(claim, "claim")),
            Cell::text(text(claim, "text")),
            figures("paper"),
            figures("measured"),
            Cell { text: verdict(claim).to_string(), number: None, is_best: !holds(claim) },
        ]
    };
    let title = "The figures are whole below".to_string();
    Table { title, columns, rows: claims.iter().map(row).collect() }
}

/// Figures on one line, as far as they fit there.
fn in_short(value: &Value) -> String {
    const SHOWN: usize = 110;
    let mut value = value.clone();
    if let Some(fields) = value.as_object_mut() {
        fields.remove(TABLES);
    }
    if value.is_null() {
        return "-".to_string();
    }
    let lines = tree(&value, 0);
    let line = lines.lines().map(str::trim).collect::<Vec<_>>().join("; ");
    match line.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{} …", line.get(..end).unwrap_or_default()),
        None => line,
    }
}

fn details(claim: &Value) -> Section {
    let mut items = vec![Item::Note(text(claim, "text").to_string())];
    if !text(claim, "note").is_empty() {
        items.push(Item::Note(text(claim, "note").to_string()));
    }
    let mut measured = claim.get("measured").cloned().unwrap_or_default();
    let tables = measured.as_object_mut().and_then(|fields| fields.remove(TABLES));
    for table in tables.as_ref().and_then(Value::as_array).into_iter().flatten() {
        items.extend(matrix(table).map(Item::Heat));
        items.push(Item::Table(of_claim(table)));
    }
    let paper = claim.get("paper").filter(|paper| !paper.is_null());
    items.extend(paper.map(|paper| Item::Text("The paper's figures".to_string(), tree(paper, 0))));
    if measured.as_object().is_none_or(|fields| !fields.is_empty()) {
        items.push(Item::Text("What was measured".to_string(), tree(&measured, 0)));
    }
    Section { title: format!("{}: {}", text(claim, "claim"), verdict(claim)), items }
}

fn list<'a>(table: &'a Value, key: &str) -> &'a [Value] {
    table.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The name of a column: a text, or an object that says also how much a whole bar is.
fn name(column: &Value) -> &str {
    column.as_str().unwrap_or_else(|| text(column, "name"))
}

fn shown(cell: &Value) -> Cell {
    match cell {
        Value::String(text) => Cell::text(text),
        Value::Number(figure) => Cell::number(figure.as_f64(), Quantity::Number),
        _ => Cell::text("-"),
    }
}

fn of_claim(table: &Value) -> Table {
    let rows = list(table, "rows");
    let is_number = |at: usize| rows.iter().any(|row| row.get(at).is_some_and(Value::is_number));
    let column = |(at, column): (usize, &Value)| Column { head: name(column).to_string(), is_number: is_number(at) };
    let row = |row: &Value| row.as_array().into_iter().flatten().map(shown).collect();
    Table {
        title: text(table, "title").to_string(),
        columns: list(table, "columns").iter().enumerate().map(column).collect(),
        rows: rows.iter().map(row).collect(),
    }
}

/// The longest run of columns of figures as a matrix, where it is long enough; its rows are named
/// by the columns before it. Settings are whole numbers, and what is measured is not.
fn matrix(table: &Value) -> Option<Heat> {
    let (columns, rows) = (list(table, "columns"), list(table, "rows"));
    let is_measured = |at: usize| rows.iter().any(|row| row.get(at).is_some_and(Value::is_f64));
    let (mut best, mut from) = (0..0, 0);
    for at in 0..=columns.len() {
        if at < columns.len() && is_measured(at) {
            continue;
        }
        if at - from > best.len() {
            best = from..at;
        }
        from = at + 1;
    }
    if best.len() < MATRIX {
        return None;
    }
    let label = |row: &Value| {
        let cells = row.as_array().into_iter().flatten().take(best.start);
        cells.map(|cell| shown(cell).text).collect::<Vec<_>>().join(", ")
    };
    let values = |row: &Value| best.clone().map(|at| row.get(at).and_then(Value::as_f64)).collect();
    let has_whole = columns.iter().any(|column| column.get("whole").is_some());
    let heads: Vec<&str> = columns.iter().take(best.start).map(name).collect();
    Some(Heat {
        title: format!("{}, by {}", text(table, "title"), heads.join(" and ")),
        quantity: Quantity::Number,
        by_row: !has_whole,
        columns: columns.get(best.clone())?.iter().map(|column| name(column).to_string()).collect(),
        rows: rows.iter().map(|row| (label(row), values(row))).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::html::html;
    use crate::testing::well_formed;
    use serde_json::json;

    #[test]
    fn a_page_of_claims() {
        let table = json!({
            "title": "User MB/s",
            "columns": ["device", "mix", "one", "two", "three", "best"],
            "rows": [["A", 30, 1.0, 2.5, "cannot remap", "two"], ["B", 30, 1.5, null, 0.5, "one"]],
        });
        let claim = json!({
            "claim": "P3.M", "text": "It <is> so", "paper": {"gain": 2.0}, "measured": {"tables": [table]},
            "holds": true, "note": "A note.",
        });
        let other = json!({"claim": "P4.1", "text": "Not", "paper": null, "measured": {"x": 1.5}, "holds": false});
        let in_some = json!({"claim": "P4.2", "holds": false, "settings": {"a": false, "b": true}});
        let page = claims("Claims", &[claim, other, in_some], &[]);
        assert_eq!(page.lead, ["1 of 3 claims hold."]);
        assert_eq!(page.sections[3].title, "P4.2: holds in some settings");
        let Item::Heat(heat) = &page.sections[1].items[2] else { panic!("{page:?}") };
        assert_eq!((heat.columns.join(" "), heat.by_row), ("one two three".to_string(), true));
        assert_eq!(heat.rows[0], ("A, 30".to_string(), vec![Some(1.0), Some(2.5), None]));
        assert_eq!(page.sections[2].title, "P4.1: does not hold");
        well_formed(&html(&page)).unwrap();
        // Whatever the file holds, there is a page.
        for odd in [json!(1), json!({}), json!({"measured": {"tables": [1, {"rows": [1], "columns": [1, 2]}]}})] {
            well_formed(&html(&claims("Claims", &[odd], &[]))).unwrap();
        }
    }
}

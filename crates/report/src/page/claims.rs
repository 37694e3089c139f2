//! The page of a reproduction: claims of papers beside what was measured.

use serde_json::Value;

use super::{Axis, Cell, Column, Curve, Curves, Heat, Item, Page, Quantity, Section, Stacked, Table};
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

/// The verdict that counts: for a quick run the recorded one, else the verdict over all settings in
/// which the claim is judged.
fn verdict(claim: &Value) -> &str {
    let settings = claim.get("settings").and_then(Value::as_object);
    match claim.get("recorded").and_then(Value::as_str) {
        Some(recorded) => recorded,
        None if holds(claim) => HOLDS,
        None if settings.into_iter().flatten().any(|(_, holds)| holds.as_bool() == Some(true)) => {
            "holds in some settings"
        }
        None => "does not hold",
    }
}

/// The verdict of a claim that holds everywhere.
const HOLDS: &str = "holds";

/// The page of these claims, as `nandkit reproduce --json` writes them, with further sentences that
/// are said of them.
pub fn claims(title: &str, claims: &[Value], notes: &[String]) -> Page {
    let holding = claims.iter().filter(|claim| verdict(claim) == HOLDS).count();
    let mut lead = vec![format!("{holding} of {} claims hold.", claims.len())];
    if claims.iter().any(|claim| claim.get("recorded").is_some()) {
        lead.push(
            "This was a quick run: fewer seeds and smaller workloads. Its verdicts do not count, so that those of the last whole run stand here; the figures are this run's."
                .to_string(),
        );
    }
    lead.extend(notes.iter().cloned());
    let (rows, others): (Vec<&Value>, Vec<&Value>) = claims.iter().partition(|claim| theory(claim).is_some());
    let mut all = vec![Item::Table(table(&others))];
    if !rows.is_empty() {
        all.extend(beside_simulation(&rows));
        all.push(Item::Table(table(&rows)));
    }
    let mut sections = vec![Section { title: "All claims".to_string(), items: all }];
    sections.extend(others.iter().map(|claim| details(claim)));
    let lines: Vec<String> = claims.iter().map(Value::to_string).collect();
    Page { title: title.to_string(), lead, sections, data: format!("[{}]", lines.join(",\n")) }
}

fn table(claims: &[&Value]) -> Table {
    let heads = [Column::text("claim"), Column::text("what it says"), Column::text("paper"), Column::text("ours")];
    let row = |claim: &&Value| {
        let line = claim.get("line");
        let words = line.map(|line| text(line, "words")).filter(|words| !words.is_empty());
        let figures = |key: &str| Cell::text(in_short(claim.get(key).unwrap_or(&Value::Null)));
        let (paper, ours) = match line {
            Some(line) => {
                let ours = line.get("ours").and_then(Value::as_f64).map(|ours| (ours * 1e3).round() / 1e3);
                (Cell::text(text(line, "paper")), Cell::number(ours, Quantity::Number))
            }
            None => (figures("paper"), figures("measured")),
        };
        vec![
            Cell::text(text(claim, "claim")),
            Cell::text(words.unwrap_or_else(|| text(claim, "text"))),
            paper,
            ours,
            Cell { text: verdict(claim).to_string(), number: None, is_best: verdict(claim) != HOLDS },
        ]
    };
    let title = "In one line each; those that do not hold everywhere are bold".to_string();
    let columns = heads.into_iter().chain([Column::text("verdict")]).collect();
    Table { title, columns, rows: claims.iter().map(row).collect() }
}

/// What theory says, of a claim that sets a formula beside a simulation.
fn theory(claim: &Value) -> Option<f64> {
    claim.get("paper")?.get("theory")?.as_f64()
}

/// Theory and simulation of each row, by its name.
fn beside_simulation(rows: &[&Value]) -> Option<Item> {
    let simulation = |claim: &Value| claim.get("measured")?.get("simulation")?.as_f64();
    let points = |value: &dyn Fn(&Value) -> Option<f64>| {
        rows.iter().enumerate().filter_map(|(at, claim)| Some((at as f64, value(claim)?))).collect()
    };
    let curves = vec![
        Curve { label: "theory".to_string(), points: points(&theory) },
        Curve { label: "simulation".to_string(), points: points(&simulation) },
    ];
    let short = |claim: &&Value| text(claim, "claim").trim_start_matches("theory.").to_string();
    let x = Axis { label: "row".to_string(), names: rows.iter().map(short).collect(), ..Axis::default() };
    let y = Axis { label: "value".to_string(), is_log: true, ..Axis::default() };
    let title = "Theory beside simulation".to_string();
    (rows.len() > 1).then_some(Item::Line(Curves { title, x, y, curves }))
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
        // A plot of curves carries its points as a table.
        if let Some(plot) = plots(table) {
            items.push(plot);
            continue;
        }
        items.extend(parts(table).map(Item::Stacked).or_else(|| matrix(table).map(Item::Heat)));
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

/// The columns whose whole bar is 100 as parts of a whole, where there are several.
fn parts(table: &Value) -> Option<Stacked> {
    let is_part = |column: &&Value| column.get("whole").and_then(Value::as_f64) == Some(100.0);
    let columns = list(table, "columns");
    let from = columns.iter().position(|column| is_part(&column))?;
    let parts: Vec<String> =
        columns.iter().skip(from).take_while(is_part).map(|column| name(column).to_string()).collect();
    let value = |row: &Value, at: usize| row.get(at).and_then(Value::as_f64).unwrap_or(0.0);
    let values = |row: &Value| -> Vec<f64> { (from..from + parts.len()).map(|at| value(row, at)).collect() };
    let rows = list(table, "rows").iter();
    let bars = rows.map(|row| (label(row, from), values(row))).collect();
    let title = format!("{}, by {}", text(table, "title"), heads(columns, from));
    (parts.len() > 1).then(|| Stacked { title, unit: String::new(), parts: parts.clone(), bars })
}

/// The curves of a table whose rows are their points: the first column names the curve, the second
/// is x, the third y.
fn plots(table: &Value) -> Option<Item> {
    if text(table, "plot") != "curves" {
        return None;
    }
    let mut curves: Vec<Curve> = Vec::new();
    for row in list(table, "rows") {
        let at = |at: usize| row.get(at).and_then(Value::as_f64);
        let (label, Some(x), Some(y)) = (label(row, 1), at(1), at(2)) else { continue };
        match curves.iter_mut().find(|curve| curve.label == label) {
            Some(curve) => curve.points.push((x, y)),
            None => curves.push(Curve { label, points: vec![(x, y)] }),
        }
    }
    let axis = |at: usize| {
        let label = list(table, "columns").get(at).map_or("", name).to_string();
        Axis { label, ..Axis::default() }
    };
    let title = text(table, "title").to_string();
    (!curves.is_empty()).then(|| Item::Line(Curves { title, x: axis(1), y: axis(2), curves }))
}

/// The name of a row: its first cells.
fn label(row: &Value, cells: usize) -> String {
    let cells = row.as_array().into_iter().flatten().take(cells);
    cells.map(|cell| shown(cell).text).collect::<Vec<_>>().join(", ")
}

/// The heads of the first columns.
fn heads(columns: &[Value], count: usize) -> String {
    columns.iter().take(count).map(name).collect::<Vec<_>>().join(" and ")
}

/// The longest run of columns of figures as a matrix, where it is long enough; its rows are named
/// by the columns before it. Settings are whole numbers, and what is measured is not.
fn matrix(table: &Value) -> Option<Heat> {
    let (columns, rows) = (list(table, "columns"), list(table, "rows"));
    let has_whole = columns.iter().any(|column| column.get("whole").is_some());
    // Bars of a whole are of one scale; what stands beside them is not.
    let is_of_scale = |at: usize| !has_whole || columns.get(at).is_some_and(|column| column.get("whole").is_some());
    let is_measured = |at: usize| is_of_scale(at) && rows.iter().any(|row| row.get(at).is_some_and(Value::is_f64));
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
    let is_name = |at: &usize| !rows.iter().any(|row| row.get(*at).is_some_and(Value::is_f64));
    let named = (0..best.start).take_while(is_name).count();
    let values = |row: &Value| best.clone().map(|at| row.get(at).and_then(Value::as_f64)).collect();
    Some(Heat {
        title: format!("{}, by {}", text(table, "title"), heads(columns, named)),
        quantity: Quantity::Number,
        by_row: !has_whole,
        columns: columns.get(best.clone())?.iter().map(|column| name(column).to_string()).collect(),
        rows: rows.iter().map(|row| (label(row, named), values(row))).collect(),
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

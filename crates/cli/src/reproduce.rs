//! `nandkit reproduce`

use nandkit_lab::reproduce::{Asked, Claim, Verdict, papers, reproduce as judge, shipped_baseline};

use nandkit_report::page::claims as page;
use nandkit_report::{Align, Style, Table, tree};
use serde_json::Value;

use crate::args::ReproduceArguments;
use crate::failure::Failure;
use crate::{output, report, session};

/// Sets the papers' claims beside measured figures.
pub fn reproduce(arguments: &ReproduceArguments) -> Result<(), Failure> {
    report::check(&arguments.page)?;
    let baseline = shipped_baseline().map_err(Failure::Input)?;
    let asked = Asked { what: arguments.what.as_deref(), quick: arguments.quick, directories: &arguments.directories };
    let mut claims = session::with_options(&arguments.running, |options| Ok(judge(papers(), asked, options)?))?;
    if arguments.quick {
        claims.iter_mut().for_each(|claim| claim.recorded = baseline.verdict(&claim.claim));
    }
    let values = claims.iter().map(serde_json::to_value).collect::<Result<Vec<Value>, _>>();
    let values = values.map_err(|error| Failure::Input(format!("cannot print the claims: {error}")))?;
    report::write(&arguments.page, || page("Claims beside measured figures", &values, &[]))?;
    if arguments.json {
        output::json(&Value::Array(values))?;
    } else {
        output::text(&text(&claims, arguments.verbose))?;
    }
    // Short workloads have not settled: what they show is no reason to fail.
    if arguments.quick {
        return Ok(());
    }
    let changes = baseline.changes(&claims);
    if !changes.mended.is_empty() {
        output::message(&format!(
            "did not hold when the baseline was written and now {}",
            listed(&changes.mended, ["does", "do"])
        ));
    }
    if changes.broken.is_empty() {
        return Ok(());
    }
    let broken = listed(&changes.broken, ["does", "do"]);
    Err(Failure::Check(format!("held when the baseline was written and no longer {broken}")))
}

fn listed(names: &[String], [one, several]: [&str; 2]) -> String {
    format!("{}: {}", if names.len() == 1 { one } else { several }, names.join("; "))
}

/// A table of all claims, a line each; with `details` each claim's figures, tables and causes
/// before it.
fn text(claims: &[Claim], details: bool) -> String {
    let (rows, others): (Vec<&Claim>, Vec<&Claim>) =
        claims.iter().partition(|claim| claim.paper.get("theory").is_some());
    let mut text = String::new();
    if details {
        others.iter().for_each(|claim| text += &in_full(claim));
    }
    for paper in papers() {
        let of_paper: Vec<&Claim> =
            others.iter().copied().filter(|claim| paper.claims().contains(&claim.claim.as_str())).collect();
        if !of_paper.is_empty() {
            text += &format!("{}: {}\n{}\n", paper.id(), paper.title(), in_lines(&of_paper).text());
        }
    }
    if !rows.is_empty() {
        text += &theory(&rows, details);
        text.push('\n');
    }
    let count = |verdict: Verdict| claims.iter().filter(|claim| claim.verdict() == verdict).count();
    let in_some = match count(Verdict::HoldsInSome) {
        0 => String::new(),
        some => format!(", {some} more in some settings"),
    };
    text += &format!("{} of {} claims hold{in_some}", count(Verdict::Holds), claims.len());
    text += match claims.iter().any(|claim| claim.recorded.is_some()) {
        true => {
            " in the last whole run.\nThis was a quick one: fewer seeds, smaller workloads. Its verdicts do not count, so that\nthe last column is the recorded one; the figures are this run's.\n"
        }
        false => "\n",
    };
    if !details && !others.is_empty() {
        text += "Figures, tables and causes: -v, or as a page: --html FILE\n";
    }
    text
}

/// Claims in one line each.
fn in_lines(claims: &[&Claim]) -> Table {
    let is_quick = claims.iter().any(|claim| claim.recorded.is_some());
    let mut table = Table::new([
        ("claim", Align::Left),
        ("what it says", Align::Left),
        ("paper", Align::Right),
        ("ours", Align::Right),
        ("checks", Align::Right),
        (if is_quick { "recorded" } else { "verdict" }, Align::Left),
    ]);
    for claim in claims {
        let line = claim.line.clone().unwrap_or_default();
        let words = if line.words.is_empty() { claim.text.clone() } else { line.words };
        let ours = line.ours.map_or_else(String::new, |ours| format!("{ours:.3}"));
        let holding = claim.checks.values().filter(|holds| **holds).count();
        let checks = format!("{holding}/{}", claim.checks.len());
        let verdict = match claim.verdict() {
            // Settings of a quick run are fewer, and its own.
            Verdict::HoldsInSome if claim.recorded.is_none() => {
                let holding = claim.settings.values().filter(|holds| **holds).count();
                format!("in {holding} of {}", claim.settings.len())
            }
            verdict => verdict.text().to_string(),
        };
        table.row([claim.claim.clone(), words, line.paper, ours, checks, verdict]);
    }
    table
}

/// All that is known of a claim.
fn in_full(claim: &Claim) -> String {
    let mut text = format!("{}  {}\n  {}\n", claim.claim, claim.verdict().text(), claim.text);
    if !claim.note.is_empty() {
        text += &format!("  {}\n", claim.note);
    }
    let mut measured = claim.measured.clone();
    let tables = measured.as_object_mut().and_then(|fields| fields.remove(TABLES));
    text += &format!("  paper\n{}  measured\n{}", tree(&claim.paper, 4), tree(&measured, 4));
    for table in tables.as_ref().and_then(Value::as_array).into_iter().flatten() {
        text += &with_bars(table, output::style());
    }
    text + "\n"
}

/// The key of a claim's tables among what was measured.
const TABLES: &str = "tables";
/// Cells of a bar.
const BAR_WIDTH: usize = 12;

/// A table of a claim: its title, then a bar behind each figure of a column that says how much a
/// whole bar is.
fn with_bars(table: &Value, style: Style) -> String {
    let list = |value: &Value, key: &str| value.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
    let columns: Vec<(String, Option<f64>)> = list(table, "columns")
        .iter()
        .map(|column| (shown(column.get("name")), column.get("whole").and_then(Value::as_f64)))
        .collect();
    let heads = columns.iter().enumerate().flat_map(|(place, (name, whole))| {
        let align = if place == 0 { Align::Left } else { Align::Right };
        [(name.clone(), align)].into_iter().chain(whole.map(|_| (String::new(), Align::Left)))
    });
    let mut lines = Table::new(heads);
    for row in list(table, "rows") {
        let cells = row.as_array().into_iter().flatten().zip(&columns).flat_map(|(cell, (_, whole))| {
            let bar =
                whole.map(|whole| format!("{:<BAR_WIDTH$}", style.bar(cell.as_f64().unwrap_or(0.0), whole, BAR_WIDTH)));
            [shown(Some(cell))].into_iter().chain(bar)
        });
        lines.row(cells.collect::<Vec<String>>());
    }
    let indented: String = lines.lines().iter().map(|line| format!("    {line}\n")).collect();
    format!("  {}\n{indented}", shown(table.get("title")))
}

/// A cell of a table: below ten with two decimals, else with one.
fn shown(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => "-".to_string(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(figure)) if figure.is_f64() => {
            let figure = figure.as_f64().unwrap_or(0.0);
            if figure.abs() < 10.0 { format!("{figure:.2}") } else { format!("{figure:.1}") }
        }
        Some(other) => other.to_string(),
    }
}

/// One line for each row: theory, simulation with its interval, the difference; with `details` also
/// where the formula is from.
fn theory(rows: &[&Claim], details: bool) -> String {
    let heads = [
        ("row", Align::Left),
        ("theory", Align::Right),
        ("simulation", Align::Right),
        ("95 %", Align::Right),
        ("difference", Align::Right),
        ("holds", Align::Left),
        ("what, and where the formula is from", Align::Left),
    ];
    let columns = if details { heads.len() } else { heads.len() - 1 };
    let mut table = Table::new(heads.into_iter().take(columns));
    let mut notes = String::new();
    for claim in rows {
        let figure = |value: &Value, name: &str, digits: usize| {
            value.get(name).and_then(Value::as_f64).map(|figure| format!("{figure:.digits$}"))
        };
        let source = claim.paper.get("source").and_then(Value::as_str).unwrap_or_default();
        let half_width = figure(&claim.measured, "half_width_95", 4);
        let difference = figure(&claim.measured, "difference_percent", 2);
        let signed = |text: String| if text.starts_with('-') { text } else { format!("+{text}") };
        let cells = [
            claim.claim.clone(),
            figure(&claim.paper, "theory", 4).unwrap_or_default(),
            figure(&claim.measured, "simulation", 4).unwrap_or_default(),
            half_width.map_or_else(String::new, |half| format!("+- {half}")),
            difference.map_or_else(String::new, |difference| format!("{} %", signed(difference))),
            claim.verdict().text().to_string(),
            format!("{}. {source}", claim.text),
        ];
        table.row(cells.into_iter().take(columns));
        if details && !claim.note.is_empty() {
            notes += &format!("{}: {}\n", claim.claim, claim.note);
        }
    }
    table.text() + &notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_table_of_a_claim_has_bars() {
        let table = json!({
            "title": "speeds",
            "columns": [{"name": "card"}, {"name": "warm %"}, {"name": "PGC", "whole": 2.0}],
            "rows": [["A", 30, 1.0], ["B", 50, null], ["C", 70, 12.25]],
        });
        let lines = ["  speeds", "    card  warm %   PGC", "    A         30  1.00  ######", "    B         50     -"];
        let last = "    C         70  12.2  ############\n";
        assert_eq!(with_bars(&table, Style::PLAIN), lines.map(|line| format!("{line}\n")).concat() + last);
    }
}

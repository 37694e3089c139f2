//! `nandkit reproduce`

use nandkit_lab::reproduce::{Claim, papers, reproduce as judge, shipped_baseline};

use nandkit_report::{Align, Table, tree};

use crate::args::ReproduceArguments;
use crate::failure::Failure;
use crate::{output, session};

/// Sets the papers' claims beside measured figures.
pub fn reproduce(arguments: &ReproduceArguments) -> Result<(), Failure> {
    let baseline = shipped_baseline().map_err(Failure::Input)?;
    let claims = session::with_options(&arguments.running, |options| {
        Ok(judge(papers(), arguments.what.as_deref(), arguments.quick, options)?)
    })?;
    if arguments.json {
        let list = serde_json::to_value(&claims)
            .map_err(|error| Failure::Input(format!("cannot print the claims: {error}")))?;
        output::json(&list)?;
    } else {
        output::text(&table(&claims))?;
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

/// Rows of theory beside simulation as a table, all other claims one by one.
fn table(claims: &[Claim]) -> String {
    let (rows, others): (Vec<&Claim>, Vec<&Claim>) =
        claims.iter().partition(|claim| claim.paper.get("theory").is_some());
    let mut text = String::new();
    for claim in others {
        let verdict = if claim.holds { "holds" } else { "does not hold" };
        text += &format!("{}  {verdict}\n  {}\n", claim.claim, claim.text);
        if !claim.note.is_empty() {
            text += &format!("  {}\n", claim.note);
        }
        text += &format!("  paper\n{}  measured\n{}", tree(&claim.paper, 4), tree(&claim.measured, 4));
        text.push('\n');
    }
    if !rows.is_empty() {
        text += &theory(&rows);
        text.push('\n');
    }
    let holding = claims.iter().filter(|claim| claim.holds).count();
    text + &format!("{holding} of {} claims hold\n", claims.len())
}

/// One line for each row: theory, simulation with its interval, the difference, where the formula is from.
fn theory(rows: &[&Claim]) -> String {
    let mut table = Table::new([
        ("row", Align::Left),
        ("theory", Align::Right),
        ("simulation", Align::Right),
        ("95 %", Align::Right),
        ("difference", Align::Right),
        ("holds", Align::Left),
        ("what, and where the formula is from", Align::Left),
    ]);
    let mut notes = String::new();
    for claim in rows {
        let figure = |value: &serde_json::Value, name: &str, digits: usize| {
            value.get(name).and_then(serde_json::Value::as_f64).map(|figure| format!("{figure:.digits$}"))
        };
        let source = claim.paper.get("source").and_then(serde_json::Value::as_str).unwrap_or_default();
        let half_width = figure(&claim.measured, "half_width_95", 4);
        let difference = figure(&claim.measured, "difference_percent", 2);
        let signed = |text: String| if text.starts_with('-') { text } else { format!("+{text}") };
        table.row([
            claim.claim.clone(),
            figure(&claim.paper, "theory", 4).unwrap_or_default(),
            figure(&claim.measured, "simulation", 4).unwrap_or_default(),
            half_width.map_or_else(String::new, |half| format!("+- {half}")),
            difference.map_or_else(String::new, |difference| format!("{} %", signed(difference))),
            if claim.holds { "yes" } else { "NO" }.to_string(),
            format!("{}. {source}", claim.text),
        ]);
        if !claim.note.is_empty() {
            notes += &format!("{}: {}\n", claim.claim, claim.note);
        }
    }
    table.text() + &notes
}

//! `nandkit reproduce`

use nandkit_lab::reproduce::{Claim, papers, reproduce as judge, shipped_baseline};

use nandkit_report::tree;

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

fn table(claims: &[Claim]) -> String {
    let mut text = String::new();
    for claim in claims {
        let verdict = if claim.holds { "holds" } else { "does not hold" };
        text += &format!("{}  {verdict}\n  {}\n", claim.claim, claim.text);
        if !claim.note.is_empty() {
            text += &format!("  {}\n", claim.note);
        }
        text += &format!("  paper\n{}  measured\n{}", tree(&claim.paper, 4), tree(&claim.measured, 4));
        text.push('\n');
    }
    let holding = claims.iter().filter(|claim| claim.holds).count();
    text + &format!("{holding} of {} claims hold\n", claims.len())
}

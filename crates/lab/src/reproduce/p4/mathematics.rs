//! P4.6: the formulas, exactly.

use nandkit_cleaning::recycling::Costs;
use serde_json::json;

use super::super::Claim;
use super::verdict::{Check, claim};

/// P4.6.
pub fn optimum() -> Claim {
    judge(&Costs::P4)
}

/// The claim for a chip with these costs: what the paper states of its own chip.
pub(super) fn judge(costs: &Costs) -> Claim {
    let equilibrium = costs.equilibrium();
    let optimum = costs.optimum(0.1).unwrap_or(f64::NAN);
    let best = costs.best_migrations(0.1);
    let share = costs.period_per_page(0.1, 49.0) / costs.merge_per_page();
    let brute = (0..640).min_by(|a, b| by_sum(costs, *a).total_cmp(&by_sum(costs, *b)));
    let checks = vec![
        Check::new(format!("equilibrium p = Np/2 = 64; ours {equilibrium}"), (equilibrium - 64.0).abs() < 1e-9),
        Check::new(format!("n0 = 48.6; ours {optimum:.3}"), (optimum - 48.6).abs() < 0.05),
        Check::new(format!("the best whole number is 49; ours {best:?}"), best == Some(49))
            .with(best.map(|best| best as f64)),
        Check::new(
            format!("the sum over all migrations, term by term, is least at 49; ours {brute:?}"),
            brute == Some(49),
        ),
        Check::new(format!("W(49) is about 5 % of W_merge; ours {:.2} %", share * 100.0), (share - 0.05).abs() < 0.002),
    ];
    let with_map = Costs { map: 1.013, ..*costs };
    let measured = json!({
        "equilibrium_p": equilibrium, "n0": optimum, "best_migrations": best, "w49_to_w_merge": share,
        "with_one_map_page": {"equilibrium_p": with_map.equilibrium(), "n0": with_map.optimum(0.1)},
    });
    let text = "Equilibrium p = Np/2; n0 = 49 at alpha = 0.1; W(n0) about 5 % of W_merge";
    let paper = json!({"equilibrium_p": 64, "n0": 49, "w49_to_w_merge": 0.05});
    claim(
        "P4.6",
        text,
        paper,
        measured,
        &checks,
        "Closed form, and the same by brute force over n. Without map pages n0 depends on alpha and Np alone, not on the times of the chip.",
    )
}

/// `W(n)` by adding up, without the closed form.
fn by_sum(costs: &Costs, n: u64) -> f64 {
    let cost: f64 = (1..=n).map(|k| costs.migration(0.1 * k as f64)).sum::<f64>() + costs.merge();
    let pages: f64 = (1..=n + 1).map(|k| f64::from(costs.pages_per_block) - 0.1 * (k - 1) as f64).sum();
    cost / pages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mathematics_holds() {
        let claim = optimum();
        assert!(claim.holds, "{}", claim.note);
    }
}

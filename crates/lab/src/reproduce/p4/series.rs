//! P4.4: how the pages that migrations copy grow.

use serde_json::{Value, json};

use super::super::Claim;
use super::plan::{BESIDE, SETTINGS, all_settings};
use super::point::{Point, Spread};
use super::verdict::{Check, Verdicts, in_settings};

/// The slopes that count as "about 0.1".
const ABOUT: std::ops::RangeInclusive<f64> = 0.05..=0.2;
/// The share of the variation that a straight line must explain for growth to count as linear.
const LINEAR: f64 = 0.9;
/// Fewest migrations in a row that a line is fitted to.
const LEAST: usize = 8;

/// A line fitted to the pages of successive migrations.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Fit {
    slope: f64,
    origin_slope: f64,
    explained: f64,
    migrations: usize,
}

/// The longest run of migrations without a merge between; in the series a merge is negative.
fn longest_period(series: &[f64]) -> &[f64] {
    series.split(|p| *p < 0.0).max_by_key(|period| period.len()).unwrap_or_default()
}

/// The growth alone: up to the first migration that copies 95 % of the most that any copies. A
/// block's migrations cannot copy more than its live pages, and a long period is mostly the plateau
/// behind that, whose slope is 0.
fn until_plateau(period: &[f64]) -> &[f64] {
    let most = period.iter().copied().fold(0.0, f64::max);
    let growth = period.iter().position(|p| *p >= 0.95 * most).map_or(0, |reached| reached + 1);
    period.get(..growth).unwrap_or_default()
}

fn fit(pages: &[f64]) -> Option<Fit> {
    if pages.len() < LEAST {
        return None;
    }
    let count = pages.len() as f64;
    let mean_n = (count + 1.0) / 2.0;
    let mean_p = pages.iter().sum::<f64>() / count;
    let (mut nn, mut np, mut pp, mut origin_np, mut origin_nn) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for (index, p) in pages.iter().enumerate() {
        let n = index as f64 + 1.0;
        nn += (n - mean_n).powi(2);
        np += (n - mean_n) * (p - mean_p);
        pp += (p - mean_p).powi(2);
        origin_np += n * p;
        origin_nn += n * n;
    }
    let explained = if pp > 0.0 { np * np / (nn * pp) } else { 0.0 };
    Some(Fit { slope: np / nn, origin_slope: origin_np / origin_nn, explained, migrations: pages.len() })
}

fn fits(points: &[Point<'_>], setting: &str, part: fn(&[f64]) -> &[f64]) -> Vec<Fit> {
    let of_setting = points.iter().filter(|point| point.setting == setting);
    of_setting.filter_map(Point::traced).filter_map(|series| fit(part(series))).collect()
}

fn growing(series: &[f64]) -> &[f64] {
    until_plateau(longest_period(series))
}

/// What the whole period shows, with its plateau; told beside the verdict, which is on the growth.
fn whole_period(points: &[Point<'_>], setting: &str) -> Option<String> {
    let fits = fits(points, setting, longest_period);
    let mean = |value: fn(&Fit) -> f64| Spread::of(fits.iter().map(value)).map(|spread| spread.mean);
    let (slope, explained, migrations) =
        (mean(|fit| fit.slope)?, mean(|fit| fit.explained)?, mean(|fit| fit.migrations as f64)?);
    let share = explained * 100.0;
    Some(format!("{setting}: {migrations:.0} migrations, alpha {slope:.3}, a line explains {share:.0} %"))
}

fn checks(points: &[Point<'_>], setting: &str) -> Vec<Check> {
    let fits = fits(points, setting, growing);
    let slope = Spread::of(fits.iter().map(|fit| fit.slope));
    let explained = Spread::of(fits.iter().map(|fit| fit.explained));
    let runs = points.iter().filter(|point| point.setting == setting).count();
    // A run with too few migrations in a row for a line is no evidence for one.
    let (measured, all) = (fits.len(), fits.len() == runs);
    let shown = |spread: Option<Spread>| {
        spread.map_or("not measured".to_string(), |spread| format!("{:.3} in {measured} of {runs} runs", spread.mean))
    };
    vec![
        Check::new(
            format!("alpha about 0.1 (0.05 to 0.2); by regression {}", shown(slope)),
            all && slope.is_some_and(|slope| ABOUT.contains(&slope.mean)),
        )
        .with(slope.map(f64::from)),
        Check::new(
            format!("p grows linearly (a line explains 90 %); it explains {}", shown(explained)),
            all && explained.is_some_and(|explained| explained.mean >= LINEAR),
        ),
    ]
}

fn measured(points: &[Point<'_>], setting: &str) -> Value {
    let (whole, growth) = (fits(points, setting, longest_period), fits(points, setting, growing));
    let of = |fits: &[Fit], value: fn(&Fit) -> f64| Spread::of(fits.iter().map(value)).map(Spread::to_json);
    let first = points.iter().filter(|point| point.setting == setting).find_map(Point::traced).unwrap_or_default();
    json!({
        "growth": {
            "alpha_by_regression": of(&growth, |fit| fit.slope), "explained": of(&growth, |fit| fit.explained),
            "migrations": growth.iter().map(|fit| fit.migrations).collect::<Vec<_>>(),
        },
        "whole_period": {
            "alpha_by_regression": of(&whole, |fit| fit.slope),
            "alpha_through_origin": of(&whole, |fit| fit.origin_slope), "explained": of(&whole, |fit| fit.explained),
            "migrations": whole.iter().map(|fit| fit.migrations).collect::<Vec<_>>(),
        },
        "p_of_migrations": longest_period(first).iter().take(200).collect::<Vec<_>>(),
    })
}

/// Points of a curve at the most.
const POINTS_MAX: usize = 50;

/// The pages that successive migrations copy in each setting that counts, as a table of curves for
/// the page: the longest period of the first seed.
fn curves(points: &[Point<'_>]) -> Value {
    let rows = SETTINGS.iter().flat_map(|setting| {
        let of_setting = points.iter().filter(|point| point.setting == setting.name);
        let period = longest_period(of_setting.filter_map(Point::traced).next().unwrap_or_default());
        let step = period.len().div_ceil(POINTS_MAX).max(1);
        let chosen = period.iter().enumerate().step_by(step);
        chosen.map(|(index, p)| json!([setting.name, index + 1, p])).collect::<Vec<_>>()
    });
    json!({
        "title": "p over migrations: pages that each one copies, longest period without a merge, first seed",
        "plot": "curves",
        "columns": ["setting", "migration since the last merge", "p, pages copied"],
        "rows": rows.collect::<Vec<_>>(),
    })
}

/// P4.4.
pub fn growth(points: &[Point<'_>]) -> Claim {
    let verdicts = Verdicts {
        counted: in_settings(&SETTINGS, |setting| checks(points, setting)),
        beside: in_settings(&BESIDE, |setting| checks(points, setting)),
    };
    let settings = all_settings().map(|setting| (setting.name.to_string(), measured(points, setting.name)));
    let settings: serde_json::Map<String, Value> = settings.collect();
    let ours = json!({"verdicts": verdicts.to_json(), "settings": settings, "tables": [curves(points)]});
    let text = "The block with FAT and root directory shows alpha of about 0.1; p grows linearly with n";
    let whole: Vec<String> = SETTINGS.iter().filter_map(|setting| whole_period(points, setting.name)).collect();
    let note = format!(
        "Logical block 0, longest period without a merge of each seed, up to its plateau: the first migration that \
         copies 95 % of the most that any copies. With the plateau: {}.",
        whole.join("; ")
    );
    verdicts.claim("P4.4", text, json!({"alpha": 0.1}), ours, &note)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_in_the_longest_period() {
        let mut series = vec![5.0, 7.0, -1.0];
        series.extend((1..=50).map(|n| 3.0 + 0.1 * f64::from(n)));
        series.push(-1.0);
        let fit = fit(longest_period(&series)).unwrap();
        assert!((fit.slope - 0.1).abs() < 1e-9 && (fit.explained - 1.0).abs() < 1e-9 && fit.migrations == 50);
        assert!(fit.origin_slope > fit.slope);
    }

    #[test]
    fn a_plateau_is_left_out_of_the_growth() {
        let rising = (1..=40).map(|n| 3.0 + 0.5 * f64::from(n));
        let series: Vec<f64> = rising.chain(std::iter::repeat_n(23.5, 400)).collect();
        let (whole, growth) = (fit(&series).unwrap(), fit(growing(&series)).unwrap());
        assert!(whole.slope < 0.05 && whole.explained < 0.5, "{whole:?}");
        assert!((growth.slope - 0.5).abs() < 1e-9 && growth.migrations < 42, "{growth:?}");
        assert_eq!(growing(&[]), &[] as &[f64]);
    }

    #[test]
    fn too_short_or_flat_is_no_growth() {
        assert_eq!(fit(&[1.0; LEAST - 1]), None);
        assert_eq!(fit(&[1.0; 20]).unwrap().explained, 0.0);
    }
}

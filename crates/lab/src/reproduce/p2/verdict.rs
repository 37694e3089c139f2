//! P2.1 to P2.3, P2.5 and P2.6.
//!
//! The tolerances stand here, in one place, and were set before the first run: "as fast" and "adds
//! nothing" are within two per cent, "no effect" within three, "up to about three times" is from
//! two to four times, "slightly fewer" is up to 15 % fewer.

use serde_json::{Value, json};

use super::super::Claim;
use super::super::check::{Check, Judged, Stated, Verdict, judge_in};
use super::super::p4::point::Spread;
use super::over::over_settings;
use super::plan::{
    BASELINE, CAT, CAT_OPEN_WIDE, LINUX, LOOKED_AT, OPEN_REGIONS, REGIONS, Setting, THRESHOLDS, dac,
    dac_with_threshold, hot_and_cold, settings_of,
};
use super::point::{Point, Scheme, View};

/// Relative difference up to which speeds count as the same.
pub(super) const SAME: f64 = 0.02;
/// Relative difference up to which a scheme counts as without effect.
const NO_EFFECT: f64 = 0.03;

/// Figures of schemes in settings.
pub(super) fn figures(points: &[Point<'_>], settings: &[Setting], schemes: &[(String, String)]) -> Value {
    let of_setting = |setting: &Setting| {
        let view = View::new(points, setting);
        let rows = schemes.iter().filter_map(|(collector, separation)| {
            Some((format!("{collector} | {separation}"), view.row((collector, separation))?))
        });
        (setting.name(), Value::Object(rows.collect()))
    };
    Value::Object(settings.iter().map(of_setting).collect())
}

/// The settings that were measured; all of them if none was, so that the verdict says so.
pub(super) fn measured(points: &[Point<'_>], settings: Vec<Setting>) -> Vec<Setting> {
    let is_measured = |setting: &Setting| View::new(points, setting).of((BASELINE, "none")).next().is_some();
    let found: Vec<Setting> = settings.iter().copied().filter(is_measured).collect();
    if found.is_empty() { settings } else { found }
}

fn alone(collectors: &[&str]) -> Vec<(String, String)> {
    collectors.iter().map(|collector| ((*collector).to_string(), "none".to_string())).collect()
}

/// The schemes of a collector by number of regions.
pub(super) fn by_regions(collectors: &[&str]) -> Vec<(String, String)> {
    let all = |collector: &&str| REGIONS.map(|regions| ((*collector).to_string(), dac(regions)));
    collectors.iter().flat_map(all).collect()
}

/// The speed with each number of regions above one by that of one region: those that were run.
fn over_one_region(view: View<'_, '_>, collector: &str) -> Vec<(u8, Spread)> {
    let ratio = |regions: u8| {
        let separation = dac(regions);
        Some((regions, view.ratio((collector, &separation), (collector, "none"), Point::speed)?))
    };
    REGIONS.into_iter().filter(|regions| *regions > 1).filter_map(ratio).collect()
}

/// The best of these means.
fn best(ratios: &[(u8, Spread)]) -> Option<Spread> {
    ratios.iter().map(|(_, spread)| *spread).max_by(|a, b| a.mean.total_cmp(&b.mean))
}

/// The ratio farthest from 1.
fn farthest(ratios: &[(u8, Spread)]) -> Option<Spread> {
    ratios.iter().map(|(_, spread)| *spread).max_by(|a, b| (a.mean - 1.0).abs().total_cmp(&(b.mean - 1.0).abs()))
}

const PLAIN: Scheme<'static> = (BASELINE, "none");
const WITH_CAT: Scheme<'static> = (CAT, "none");

/// How the verdict hangs on layout and fill: one figure for each setting.
fn by_setting(verdicts: &[Verdict<Setting>], figure: impl Fn(&Setting) -> Option<Spread>) -> String {
    let each =
        verdicts.iter().filter_map(|verdict| Some(format!("{} {:.2}", verdict.of.name(), figure(&verdict.of)?.mean)));
    each.collect::<Vec<_>>().join("; ")
}

/// P2.1.
pub fn cat(points: &[Point<'_>]) -> Claim {
    let speed = |setting: &Setting| View::new(points, setting).ratio(WITH_CAT, PLAIN, Point::speed);
    let erases = |setting: &Setting| View::new(points, setting).ratio(WITH_CAT, PLAIN, Point::erases);
    let settings = measured(points, hot_and_cold());
    let verdicts = judge_in(settings.clone(), |setting| {
        vec![
            Check::new("CAT writes 2 to 4 times as fast as baseline", speed(setting), |x| (2.0..=4.0).contains(&x)),
            Check::new("CAT erases less than half as often", erases(setting), |x| x < 0.5),
        ]
    });
    let causes = format!(
        "CAT's speed by baseline's: {}. By Linux's own choice of lists: {}.",
        by_setting(&verdicts, speed),
        by_setting(&verdicts, |setting| View::new(points, setting).ratio(WITH_CAT, (LINUX, "none"), Point::speed)),
    );
    let stated = Stated {
        id: "P2.1",
        text: "640-116: CAT writes up to about three times as fast as baseline JFFS2 and erases less than half as often",
        paper: json!({"speed_by_baseline": 3.0, "erases_by_baseline": "< 0.5"}),
    };
    over_settings(stated, &verdicts, figures(points, &settings, &alone(&[BASELINE, CAT, LINUX])), &causes)
}

/// The checks of P2.2.
fn dac_adds_nothing(points: &[Point<'_>], setting: &Setting) -> Vec<Check> {
    let mut checks = Vec::new();
    for collector in [BASELINE, CAT] {
        let ratios = over_one_region(View::new(points, setting), collector);
        let most = ratios.iter().max_by_key(|(regions, _)| *regions).filter(|(regions, _)| *regions > 2);
        let least = ratios.iter().min_by_key(|(regions, _)| *regions).map(|(_, spread)| spread.mean);
        checks.push(Check::new(format!("{collector}: the best R above 1 adds nothing"), best(&ratios), |x| {
            x <= 1.0 + SAME
        }));
        let most = most.map(|(_, spread)| *spread);
        checks
            .push(Check::new(format!("{collector}: the greatest R loses a little"), most, |x| (0.8..1.0).contains(&x)));
        checks.push(Check::new(format!("{collector}: the greatest R loses more than R=2"), most, |x| {
            least.is_some_and(|least| x < least)
        }));
    }
    checks
}

/// P2.2, with other thresholds of DAC beside it.
pub fn dac_claim(points: &[Point<'_>], thresholds: &[Point<'_>]) -> Claim {
    let settings = measured(points, hot_and_cold());
    let verdicts = judge_in(settings.clone(), |setting| dac_adds_nothing(points, setting));
    let schemes: Vec<(String, String)> = [BASELINE, CAT]
        .iter()
        .flat_map(|collector| THRESHOLDS.map(|seconds| ((*collector).to_string(), dac_with_threshold(seconds))))
        .collect();
    let with_thresholds = LOOKED_AT.iter().map(|setting| {
        let there = View::new(points, setting);
        let gains = schemes.iter().filter_map(|(collector, separation)| {
            let here = View::new(thresholds, setting);
            let gain = here.ratio_to(there, (collector, separation), (collector, "none"), Point::speed)?;
            Some(format!("{collector} | {separation} {:.2}", gain.mean))
        });
        format!("{}: {}", setting.name(), gains.collect::<Vec<_>>().join("; "))
    });
    let best_with_cat = by_setting(&verdicts, |setting| best(&over_one_region(View::new(points, setting), CAT)));
    let causes = format!(
        "Speed of the best R above 1 by that of R=1, CAT: {best_with_cat}. P2 names no threshold; 60 s is ours. Speed by that of one region with others: {}.",
        with_thresholds.collect::<Vec<_>>().join(". ")
    );
    let stated = Stated {
        id: "P2.2",
        text: "640-116: DAC adds nothing, and loses a little as R grows",
        paper: json!({"speed_by_one_region": "just under 1, falling with R"}),
    };
    let shown = json!({
        "regions": figures(points, &settings, &by_regions(&[BASELINE, CAT])),
        "thresholds": figures(thresholds, &LOOKED_AT, &schemes),
    });
    over_settings(stated, &verdicts, shown, &causes)
}

/// P2.3.
pub fn random(points: &[Point<'_>]) -> Claim {
    let all = measured(points, settings_of("rnd"));
    let verdicts = judge_in(all.clone(), |setting| {
        let view = View::new(points, setting);
        let mut checks = vec![
            Check::new("CAT is no slower", view.ratio(WITH_CAT, PLAIN, Point::speed), |x| x >= 1.0 - SAME),
            Check::new("CAT erases slightly less", view.ratio(WITH_CAT, PLAIN, Point::erases), |x| {
                (0.85..1.0).contains(&x)
            }),
        ];
        for collector in [BASELINE, CAT] {
            let ratios = over_one_region(view, collector);
            checks.push(Check::new(format!("{collector}: DAC has no effect"), farthest(&ratios), |x| {
                (x - 1.0).abs() <= NO_EFFECT
            }));
        }
        checks
    });
    let stated = Stated {
        id: "P2.3",
        text: "Random: no loss; slightly fewer erases from CAT; no effect of DAC",
        paper: json!({"speed_by_baseline": 1.0, "erases_by_baseline": "just under 1", "speed_by_one_region": 1.0}),
    };
    let mut schemes = by_regions(&[BASELINE, CAT]);
    schemes.extend(alone(&[LINUX]));
    over_settings(stated, &verdicts, figures(points, &all, &schemes), "")
}

/// P2.5: with the list closed DAC gains nothing, with it open it gains. Judged with
/// [`CAT_OPEN_WIDE`]: where a clean block counts as one hundredth invalid (`CAT_OPEN`), hardly any
/// is taken in short runs.
pub fn clean_list(points: &[Point<'_>], open: &[Point<'_>]) -> Claim {
    let settings = measured(points, hot_and_cold());
    let opened_best = |setting: &Setting| best(&over_one_region(View::new(open, setting), CAT_OPEN_WIDE));
    let verdicts = judge_in(settings.clone(), |setting| {
        let closed = best(&over_one_region(View::new(points, setting), CAT));
        let closed_view = View::new(points, setting);
        let never = closed_view.figure(WITH_CAT, Point::never);
        let taken = View::new(open, setting).ratio_to(closed_view, (CAT_OPEN_WIDE, "none"), WITH_CAT, Point::never);
        vec![
            Check::new("clean list closed: DAC's best R adds nothing", closed, |x| x <= 1.0 + SAME),
            Check::new("clean list open: DAC's best R gains at least 5 %", opened_best(setting), |x| x >= 1.05),
            Check::new("clean list closed: blocks are never erased, so cold data lie apart", never, |x| x >= 1.0),
            Check::new("clean list open: fewer blocks are never erased, so it is really open", taken, |x| x < 1.0),
        ]
    });
    let by_closed = |setting: &Setting| {
        View::new(open, setting).ratio_to(View::new(points, setting), (CAT_OPEN_WIDE, "none"), WITH_CAT, Point::speed)
    };
    let causes = format!(
        "Speed with the list open by that with it closed, without DAC: {}. DAC's best R by R=1, list open: {}.",
        by_setting(&verdicts, by_closed),
        by_setting(&verdicts, opened_best)
    );
    let stated = Stated {
        id: "P2.5",
        text: "Conjecture: DAC fails because the clean list already acts as the bottom region",
        paper: Value::Null,
    };
    let open_schemes: Vec<(String, String)> =
        OPEN_REGIONS.map(|regions| (CAT_OPEN_WIDE.to_string(), dac(regions))).to_vec();
    let shown = json!({
        "closed": figures(points, &settings, &by_regions(&[CAT])),
        "open": figures(open, &settings, &open_schemes),
    });
    over_settings(stated, &verdicts, shown, &causes)
}

/// P2.6.
pub fn baseline(points: &[Point<'_>]) -> Claim {
    let amplification = |setting: &Setting, scheme| {
        let random = View::new(points, &setting.with("rnd")).figure(scheme, Point::amplification)?;
        let own = View::new(points, setting).figure(scheme, Point::amplification)?;
        let by = |own: f64| own / random.mean.max(f64::MIN_POSITIVE);
        Some(Spread { mean: by(own.mean), min: by(own.min), max: by(own.max), seeds: own.seeds })
    };
    let mut settings = measured(points, hot_and_cold());
    let verdicts = judge_in(settings.clone(), |setting| {
        vec![Check::new("640-116 amplifies writes at least as much as random", amplification(setting, PLAIN), |x| {
            x >= 1.0 - SAME
        })]
    });
    let causes = format!(
        "Write amplification by that of random, baseline: {}. Linux's own choice of lists: {}.",
        by_setting(&verdicts, |setting| amplification(setting, PLAIN)),
        by_setting(&verdicts, |setting| amplification(setting, (LINUX, "none"))),
    );
    let stated = Stated {
        id: "P2.6",
        text: "For baseline JFFS2, 640-116 is only an extreme case of random writing: as bad or worse",
        paper: json!({"amplification_by_random": ">= 1"}),
    };
    settings.extend(measured(points, settings_of("rnd")));
    over_settings(stated, &verdicts, figures(points, &settings, &alone(&[BASELINE, LINUX])), &causes)
}

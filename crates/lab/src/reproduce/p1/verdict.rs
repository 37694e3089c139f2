//! The verdicts on P1's claims.
//!
//! The tolerances stand here, in one place: "at least as fast" and "the same speed" are within two
//! per cent, "does not depend" is within ten, "about 1" within five; "almost only" and "nearly
//! everything" are nine tenths of the runs, "hardly used" is one tenth, "only" is all but one in a
//! hundred; "in many cells" is in a third of them.

use serde_json::{Value, json};

use super::super::Claim;
use super::super::check::{self, Check, Stated, Verdict};
use super::plan::{COLD, Cell, LFS, MODES, READINGS, Role, WARM};
use super::point::{Point, Readings, View, median};
use super::tables;

/// Relative difference up to which speeds count as the same.
const SAME: f64 = 0.02;
/// Relative difference up to which a figure counts as not dependent.
const NO_DEPENDENCE: f64 = 0.10;
/// Distance from 1 up to which a ratio counts as about 1.
const ABOUT: f64 = 0.05;
/// The share from which a claim says "almost only" or "nearly everything".
const NEARLY_ALL: f64 = 0.9;
/// The share up to which a claim says "hardly used".
const HARDLY: f64 = 0.1;
/// The share from which a claim says "only".
const ONLY: f64 = 0.99;
/// The model's error, as the median.
const MODEL_ERROR: f64 = 0.05;

/// The claim, judged in each reading; without one the first has nothing that was measured.
fn claim(
    stated: Stated<'_>,
    readings: &Readings<'_, '_>,
    checks: impl Fn(View<'_, '_>) -> Vec<Check>,
    tables: Vec<Value>,
    causes: &str,
) -> Claim {
    let unmeasured = [(READINGS[0], View(&[]))];
    let readings = if readings.is_empty() { &unmeasured } else { readings };
    let judged = readings.iter().map(|(reading, view)| Verdict { of: *reading, checks: checks(*view) });
    check::claim(stated, &judged.collect::<Vec<_>>(), ("tables", tables.into()), causes)
}

fn cell(role: Role, cold: u8, warm: u8) -> Cell {
    Cell { role, cold, warm }
}

/// PGC's gain over SSR.
fn gain(view: View<'_, '_>, cell: Cell) -> Option<f64> {
    Some(view.ratio(cell, "pgc", "ssr")?.mean)
}

/// The share of the moved runs that went to the cold log (0) or within their segment (1).
fn of_moved(view: View<'_, '_>, cell: Cell, at: usize) -> Option<f64> {
    let shares = view.shares(cell)?;
    let moved = shares[0] + shares[1];
    Some(if moved > 0.0 { shares[at] / moved } else { 0.0 })
}

fn left(view: View<'_, '_>, cell: Cell) -> Option<f64> {
    Some(view.shares(cell)?[2])
}

/// The greatest of these values divided by the least; `None` if one is missing.
fn spread(values: impl IntoIterator<Item = Option<f64>>) -> Option<f64> {
    let all: Vec<f64> = values.into_iter().collect::<Option<_>>()?;
    let of = |choose: fn(f64, f64) -> f64| all.iter().copied().reduce(choose);
    Some(of(f64::max)? / of(f64::min)?.max(f64::MIN_POSITIVE))
}

/// The least step from each to the next, as a ratio: above 1 where they rise.
fn least_step(values: &[Option<f64>]) -> Option<f64> {
    let steps = values.windows(2).map(|pair| Some(pair[1]? / pair[0]?));
    steps.collect::<Option<Vec<f64>>>()?.into_iter().reduce(f64::min)
}

/// P1.1.
pub fn never_slower(readings: &Readings<'_, '_>) -> Claim {
    let checks = |view: View<'_, '_>| {
        let each = Cell::all().into_iter().map(|cell| {
            let name = format!("{}: PGC by the better of SSR and GC", cell.name());
            Check::new(name, tables::by_better(view, cell), |x| x >= 1.0 - SAME)
        });
        each.collect()
    };
    let stated = Stated {
        id: "P1.1",
        text: "On every card and mix, PGC writes at least as fast as the better of SSR and GC",
        paper: json!({"pgc_by_better": ">= 1"}),
    };
    let first = readings.first().map_or(View(&[]), |(_, view)| *view);
    let tables = vec![tables::speeds(first), tables::by_reading(readings)];
    claim(stated, readings, checks, tables, &beyond_the_holes(first))
}

/// Names the advantages of GC that PGC's rule does not count, in the cells where GC is faster.
fn beyond_the_holes(view: View<'_, '_>) -> String {
    let each = Cell::all().into_iter().filter_map(|cell| {
        tables::by_better(view, cell).filter(|ratio| *ratio < 1.0 - SAME)?;
        let treated = |mode| view.mean(cell, mode, |point| point.count("treated_segments"));
        let copied = |mode| view.mean(cell, mode, |point| point.count("inter_blocks") / 256.0);
        Some(format!(
            "{}: GC {:.0} segments, {:.1} MiB copied to the cold log; PGC {:.0}, {:.1} MiB",
            cell.name(),
            treated("gc")?,
            copied("gc")?,
            treated("pgc")?,
            copied("pgc")?
        ))
    });
    let each: Vec<String> = each.collect();
    if each.is_empty() {
        return String::new();
    }
    format!(
        "Cause: the rule credits a run with the part of its request that its holes have; what Inter-GC frees beyond \
         them is written too, and the cold segments that the copies take are not missed as long as some are free. \
         Segments emptied before they were filled: {}.",
        each.join("; ")
    )
}

/// P1.2.
pub fn best_case(readings: &Readings<'_, '_>) -> Claim {
    let checks = |view: View<'_, '_>| {
        let best = Cell::all()
            .into_iter()
            .filter_map(|cell| Some((cell, gain(view, cell)?)))
            .max_by(|a, b| a.1.total_cmp(&b.1));
        let of_c = WARM.map(|warm| gain(view, cell(Role::C, 0, warm)));
        vec![
            Check::new(
                "card C, free cold segments: PGC's best by SSR",
                of_c.into_iter().flatten().reduce(f64::max),
                |x| x > 2.0,
            ),
            Check::new(
                "the best of all cells is card C with free cold segments",
                best.map(|(best, _)| f64::from(u8::from(best.role == Role::C && best.cold == 0))),
                |x| x > 0.0,
            ),
        ]
    };
    let stated = Stated {
        id: "P1.2",
        text: "At best PGC is more than twice as fast as SSR (card C, free cold segments)",
        paper: json!({"pgc_by_ssr": "> 2"}),
    };
    claim(stated, readings, checks, Vec::new(), "")
}

/// P1.3.
pub fn by_card(readings: &Readings<'_, '_>) -> Claim {
    let checks = |view: View<'_, '_>| {
        let mean = |role| {
            let gains = Cell::all().into_iter().filter(|cell| cell.role == role).map(|cell| gain(view, cell));
            let gains: Vec<f64> = gains.collect::<Option<_>>()?;
            Some(gains.iter().sum::<f64>() / gains.len().max(1) as f64)
        };
        let means = Role::ALL.map(mean);
        let mut checks = vec![
            Check::new("mean gain of B by that of A", least_step(&means[..2]), |x| x > 1.0),
            Check::new("mean gain of C by that of B", least_step(&means[1..]), |x| x > 1.0),
        ];
        for of in Cell::all().into_iter().filter(|cell| cell.role == Role::A) {
            checks.push(Check::new(format!("{}: gain", of.name()), gain(view, of), |x| (x - 1.0).abs() <= ABOUT));
            checks.push(Check::new(format!("{}: runs left", of.name()), left(view, of), |x| x >= NEARLY_ALL));
        }
        for warm in WARM {
            let of = cell(Role::C, 0, warm);
            checks.push(Check::new(format!("{}: runs left", of.name()), left(view, of), |x| x <= HARDLY));
        }
        checks
    };
    let stated = Stated {
        id: "P1.3",
        text: "The gain grows from card A to B to C; on A nearly everything stays SSR (ratio about 1), on C SSR is hardly used",
        paper: json!({"gain_on_a": 1.0, "left_on_c": "hardly any"}),
    };
    let tables = readings.first().map(|(_, view)| tables::shares(*view)).into_iter().collect();
    claim(stated, readings, checks, tables, "")
}

/// P1.4.
pub fn free_cold(readings: &Readings<'_, '_>) -> Claim {
    let checks = |view: View<'_, '_>| {
        let mut checks = Vec::new();
        for role in Role::ALL {
            let speeds = |mode| WARM.map(|warm| view.mean(cell(role, 0, warm), mode, Point::speed));
            let gains = WARM.map(|warm| gain(view, cell(role, 0, warm)));
            let falls = least_step(&speeds("ssr").into_iter().rev().collect::<Vec<_>>());
            checks.push(Check::new(format!("{role:?}: SSR falls with the warm valid share"), falls, |x| x > 1.0));
            checks.push(Check::new(format!("{role:?}: GC, fastest by slowest"), spread(speeds("gc")), |x| {
                x <= 1.0 + NO_DEPENDENCE
            }));
            if role == Role::A {
                continue;
            }
            checks.push(Check::new(format!("{role:?}: PGC, fastest by slowest"), spread(speeds("pgc")), |x| {
                x <= 1.0 + NO_DEPENDENCE
            }));
            let grows = least_step(&gains);
            checks.push(Check::new(format!("{role:?}: the gain grows with the warm valid share"), grows, |x| x > 1.0));
            for warm in WARM {
                let of = cell(role, 0, warm);
                checks.push(Check::new(format!("{}: Inter-GC of what moved", of.name()), of_moved(view, of, 0), |x| {
                    x >= NEARLY_ALL
                }));
            }
        }
        checks
    };
    let stated = Stated {
        id: "P1.4",
        text: "Free cold segments: almost only Inter-GC; GC and PGC do not depend on the warm valid share while SSR falls with it, so that the gain grows",
        paper: json!({"inter_of_moved": "almost all", "gc_fastest_by_slowest": 1.0}),
    };
    let first = readings.first().map_or(View(&[]), |(_, view)| *view);
    claim(stated, readings, checks, Vec::new(), &time_of_copies(first))
}

/// Why GC's speed falls with what has to be copied.
fn time_of_copies(view: View<'_, '_>) -> String {
    let each = Role::ALL.into_iter().filter_map(|role| {
        let of = |warm| {
            let share = |name| view.mean(cell(role, 0, warm), "gc", |point| share_of_time(point, name));
            Some(format!("{:.0}/{:.0}", share("copy_ns")? * 100.0, share("checkpoint_ns")? * 100.0))
        };
        let shares: Vec<String> = WARM.into_iter().filter_map(of).collect();
        (!shares.is_empty()).then(|| format!("{role:?} {}", shares.join(", ")))
    });
    let each: Vec<String> = each.collect();
    if each.is_empty() {
        return String::new();
    }
    format!(
        "Cause: copies are read in small pieces and written, however sequentially. Copies/checkpoints in per cent of \
         GC's time at warm 30, 50, 70: {}.",
        each.join("; ")
    )
}

fn share_of_time(point: &Point<'_>, name: &str) -> f64 {
    point.count(name) / (point.record.figures.elapsed_ns as f64).max(1.0)
}

/// P1.5.
pub fn dirty_cold(readings: &Readings<'_, '_>) -> Claim {
    let checks = |view: View<'_, '_>| {
        let of_c = |warm| cell(Role::C, 70, warm);
        let mut checks = Vec::new();
        for warm in [30, 50] {
            let name = of_c(warm).name();
            checks.push(Check::new(format!("{name}: Intra-GC of what moved"), of_moved(view, of_c(warm), 1), |x| {
                x >= NEARLY_ALL
            }));
            checks.push(Check::new(format!("{name}: runs left"), left(view, of_c(warm)), |x| (0.01..0.9).contains(&x)));
        }
        let gains: Vec<Option<f64>> = WARM.into_iter().rev().map(|warm| gain(view, of_c(warm))).collect();
        checks.push(Check::new("C: the gain grows as the warm valid share falls", least_step(&gains), |x| x > 1.0));
        for role in [Role::B, Role::C] {
            let ratios = WARM.map(|warm| Some(gain(view, cell(role, 70, warm))? / gain(view, cell(role, 0, warm))?));
            let most =
                ratios.into_iter().collect::<Option<Vec<f64>>>().and_then(|all| all.into_iter().reduce(f64::max));
            checks.push(Check::new(format!("{role:?}: gains by those with free cold segments"), most, |x| x < 1.0));
        }
        let dirty: Vec<Cell> = Cell::all().into_iter().filter(|cell| cell.cold != 0).collect();
        let only = dirty.iter().map(|cell| Some(f64::from(u8::from(left(view, *cell)? >= ONLY))));
        let only = only.collect::<Option<Vec<f64>>>().map(|only| only.iter().sum::<f64>());
        checks.push(Check::new("cells in which only SSR is used, of nine", only, |x| x >= 3.0));
        let both = view.shares(of_c(70)).map(|shares| shares[0].min(shares[1]));
        checks.push(Check::new("C cold 70 warm 70: the rarer of Inter-GC and Intra-GC", both, |x| x > 0.0));
        for role in [Role::A, Role::B] {
            let of = cell(role, 70, 70);
            checks.push(Check::new(format!("{}: runs left", of.name()), left(view, of), |x| x >= ONLY));
        }
        checks
    };
    let stated = Stated {
        id: "P1.5",
        text: "Dirty cold segments: Intra-GC beside some SSR; the gain grows as the warm valid share falls, is less than with free cold segments, and in many cells the checkpoint costs more; at 70 and 70 % both Inter and Intra on card C only",
        paper: json!({"intra_of_moved": "almost all", "at_70_and_70": "Inter and Intra, on card C only"}),
    };
    let first = readings.first().map_or(View(&[]), |(_, view)| *view);
    claim(stated, readings, checks, Vec::new(), &shares_of_c(first))
}

fn shares_of_c(view: View<'_, '_>) -> String {
    let each = WARM.into_iter().filter_map(|warm| {
        let of = cell(Role::C, 70, warm);
        let [inter, intra, left] = view.shares(of)?.map(|share| share * 100.0);
        let dear = view.mean(of, "pgc", |point| point.count("left_for_checkpoint_segments"))?;
        Some(format!(
            "warm {warm}: {inter:.0}/{intra:.0}/{left:.0}, {dear:.0} segments left since the checkpoint is dearer"
        ))
    });
    let each: Vec<String> = each.collect();
    if each.is_empty() { String::new() } else { format!("Inter/Intra/SSR in per cent on C: {}.", each.join("; ")) }
}

/// P1.6.
pub fn checkpoint_dearer(readings: &Readings<'_, '_>) -> Claim {
    let checks = |view: View<'_, '_>| {
        let dear = |warm| view.mean(cell(Role::A, 0, warm), "pgc", |point| point.count("left_for_checkpoint_segments"));
        let mut checks = vec![
            Check::new("A cold 0 warm 30: runs left", left(view, cell(Role::A, 0, 30)), |x| x >= ONLY),
            Check::new("A cold 0 warm 30: segments left since the checkpoint is dearer", dear(30), |x| x > 0.0),
        ];
        for warm in [50, 70] {
            let of = cell(Role::A, 0, warm);
            let moved = left(view, of).map(|left| 1.0 - left);
            checks.push(Check::new(format!("{}: runs moved", of.name()), moved, |x| x > 0.0));
        }
        checks
    };
    let stated = Stated {
        id: "P1.6",
        text: "Free cold segments, card A: only at the lowest warm valid share does the checkpoint cost more than PGC gains, so that SSR alone is used there",
        paper: json!({"left_at_warm_30": 1.0, "moved_at_warm_50_and_70": "some"}),
    };
    let first = readings.first().map_or(View(&[]), |(_, view)| *view);
    let each = WARM.into_iter().filter_map(|warm| {
        let of = cell(Role::A, 0, warm);
        let mean = |name: &'static str| first.mean(of, "pgc", move |point| point.count(name));
        Some(format!(
            "warm {warm}: {:.1} of {:.0} segments treated, {:.1} left for their checkpoint",
            mean("treated_segments")?,
            mean("reviewed_segments")?,
            mean("left_for_checkpoint_segments")?
        ))
    });
    let each: Vec<String> = each.collect();
    let causes = if each.is_empty() { String::new() } else { format!("On A: {}.", each.join("; ")) };
    claim(stated, readings, checks, Vec::new(), &causes)
}

fn ssr_by(view: View<'_, '_>, cold: u8, mode: &'static str) -> Option<f64> {
    Some(view.ratio(cell(Role::A, cold, 30), "ssr", mode)?.mean)
}

/// What P1.7 would be on a card that fills holes as fast as it writes in order: GC's time without
/// its copies and checkpoints is that of writing in order.
fn without_small_requests(view: View<'_, '_>) -> String {
    let ratio = |cold| {
        let of = cell(Role::A, cold, 30);
        let share = |name: &'static str| view.mean(of, "gc", move |point| share_of_time(point, name));
        Some(1.0 / (1.0 - share("copy_ns")? - share("checkpoint_ns")?).max(f64::MIN_POSITIVE))
    };
    match COLD.map(ratio) {
        [Some(free), Some(dirty)] => format!(
            "Cause: small requests are dearer on this card too, so that SSR loses a part of what GC's copies cost. On \
             a card that fills holes as fast as it writes in order it would be {free:.2} and {dirty:.2}."
        ),
        _ => String::new(),
    }
}

/// P1.7.
pub fn collection_on_a(readings: &Readings<'_, '_>) -> Claim {
    let checks = |view: View<'_, '_>| {
        let ratios = COLD.map(|cold| ssr_by(view, cold, "gc"));
        let best = ratios.into_iter().flatten().reduce(f64::max);
        vec![Check::new("A warm 30: SSR by GC, the greater of free and dirty cold segments", best, |x| x > 2.0)]
    };
    let stated = Stated {
        id: "P1.7",
        text: "Warm segments 30 % valid: on card A, SSR is more than twice as fast as GC",
        paper: json!({"ssr_by_gc": "> 2"}),
    };
    let each = readings.iter().map(|(reading, view)| {
        let of = |mode| COLD.map(|cold| ssr_by(*view, cold, mode).map_or("-".to_string(), |x| format!("{x:.2}")));
        format!(
            "\"{}\" {}, without gaps filled (mode=lfs) {}",
            reading.name,
            of("gc").join(" and "),
            of(LFS).join(" and ")
        )
    });
    let first = readings.first().map_or(View(&[]), |(_, view)| *view);
    let causes = format!(
        "SSR by GC, free and dirty cold segments: {}. {}",
        each.collect::<Vec<_>>().join("; "),
        without_small_requests(first)
    );
    claim(stated, readings, checks, Vec::new(), if readings.is_empty() { "" } else { causes.trim() })
}

/// P1.8: the footnote.
pub fn footnote(in_order: View<'_, '_>, at_random: View<'_, '_>) -> Claim {
    let farthest = |mode: &'static str| {
        let ratios = Cell::all().into_iter().filter_map(|cell| at_random.ratio_to(in_order, cell, mode, mode));
        ratios.map(|ratio| ratio.mean).max_by(|a, b| (a - 1.0).abs().total_cmp(&(b - 1.0).abs()))
    };
    let checks: Vec<Check> = MODES
        .into_iter()
        .take(3)
        .map(|mode| {
            let name = format!("{mode}: random by sequential writes, the cell farthest from 1");
            Check::new(name, farthest(mode), |x| (x - 1.0).abs() <= ABOUT)
        })
        .collect();
    let stated = Stated {
        id: "P1.8",
        text: "Random and sequential writes of users fill dirty segments at the same speed",
        paper: json!({"random_by_sequential": 1.0}),
    };
    let reading = READINGS[0];
    claim(stated, &[(reading, in_order)], |_| checks.clone(), Vec::new(), "")
}

/// Beyond the paper: the model's error, and the best choice for a whole segment.
pub fn beyond(view: View<'_, '_>) -> Claim {
    let checks = |view: View<'_, '_>| {
        let mut checks: Vec<Check> = Role::ALL
            .into_iter()
            .map(|role| {
                let mut errors: Vec<f64> =
                    tables::ratios(view, role, None).iter().map(|ratio| (ratio - 1.0).abs()).collect();
                let name = format!("{role:?}: the model's error for treated segments, median");
                Check::new(name, median(&mut errors), |x| x < MODEL_ERROR)
            })
            .collect();
        let expected = |cell, mode| view.mean(cell, mode, Point::expected_ms);
        let worst = Cell::all().into_iter().map(|cell| Some(expected(cell, "pgc-optimal")? / expected(cell, "pgc")?));
        let worst = worst.collect::<Option<Vec<f64>>>().and_then(|all| all.into_iter().reduce(f64::max));
        let name = "time expected of a segment by the best choice, by that of PGC, the worst cell";
        checks.push(Check::new(name, worst, |x| x <= 1.0 + SAME));
        checks
    };
    let slower = Cell::all().into_iter().filter_map(|cell| {
        let ratio = view.ratio(cell, "pgc-optimal", "pgc")?.mean;
        (ratio < 1.0 - SAME).then(|| format!("{} ({ratio:.2})", cell.name()))
    });
    let slower: Vec<String> = slower.collect();
    let causes = match slower.as_slice() {
        [] => String::new(),
        slower => {
            format!("The best choice by the model is slower than PGC in the simulation in {}.", slower.join(", "))
        }
    };
    let stated = Stated {
        id: "P1.F",
        text: "Beyond the paper: its model gives the time of treated segments within 5 % (median), and the best choice for a whole segment expects no more than its rule",
        paper: json!(null),
    };
    let reading = READINGS[0];
    claim(stated, &[(reading, view)], checks, vec![tables::model(view), tables::best_choice(view)], &causes)
}

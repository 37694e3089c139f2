//! P2.F: what the paper left for later, the way of data between regions and JFFS2 beside FAT on a
//! translation layer; and which policy does better than CAT.

use nandkit_cleaning::separation::Separation;
use serde_json::{Map, Value, json};

use super::super::Claim;
use super::super::check::Judged as _;
use super::super::check::{Check, Stated, judge_in};
use super::over::over_settings;
use super::plan::{CAT, LAYERS, LOOKED_AT, REGIONS, Setting, dac, hot_and_cold};
use super::point::{Point, View};
use super::verdict::measured;

/// Where JFFS2 was set beside FAT on translation layers.
const BESIDE_FAT: Setting = LOOKED_AT[0];

/// P2.F.
pub fn later_work(points: &[Point<'_>], layers: &[Point<'_>], beyond: &[Point<'_>]) -> Claim {
    let verdicts = judge_in(measured(points, hot_and_cold()), |setting| {
        let view = View::new(points, setting);
        let separation = dac(5);
        let top = view.figure((CAT, &separation), |point| moves(point).map_or(0.0, |moves| moves.top));
        let mut checks = vec![Check::new(
            "five regions: most moves of the collector end in the top region, which hot and cold data share",
            top,
            |x| x > 0.5,
        )];
        if *setting == BESIDE_FAT {
            for layer in LAYERS {
                let slower = View::new(layers, setting).ratio_to(view, (layer, ""), (CAT, "none"), Point::speed);
                checks.push(Check::new(format!("JFFS2 with CAT writes faster than {layer}"), slower, |x| x < 1.0));
            }
        }
        checks
    });
    let stated = Stated {
        id: "P2.F",
        text: "Left for later work: follow data through the regions to explain DAC; compare JFFS2 with a file system over a translation layer on the same flash",
        paper: Value::Null,
    };
    let (mut flows, mut ranked, mut causes) = (Map::new(), Map::new(), Vec::new());
    for setting in &LOOKED_AT {
        let best = ranking(points, beyond, setting);
        causes.extend(trace(points, setting));
        causes.extend(beats_cat(&best, setting));
        flows.insert(setting.name(), flow_tables(points, setting));
        ranked.insert(setting.name(), best.iter().map(Ranked::to_json).collect());
    }
    let shown = json!({"flows": flows, "fat": beside_fat(layers), "beyond": ranked});
    over_settings(stated, &verdicts, shown, &causes.join(" "))
}

/// Where the collector's moves went, as shares of all of them.
struct Moves {
    up: f64,
    same: f64,
    down: f64,
    /// Share of moves that end in the top region.
    top: f64,
}

fn moves(point: &Point<'_>) -> Option<Moves> {
    let regions = usize::from(point.separation.parse::<Separation>().ok()?.regions());
    let flows = point.flows("clean_flows")?;
    let (mut up, mut same, mut down, mut top) = (0.0, 0.0, 0.0, 0.0);
    for (from, row) in flows.chunks(regions).take(regions).enumerate() {
        for (to, count) in row.iter().enumerate() {
            if to + 1 == regions {
                top += count;
            }
            match to.cmp(&from) {
                std::cmp::Ordering::Greater => up += count,
                std::cmp::Ordering::Equal => same += count,
                std::cmp::Ordering::Less => down += count,
            }
        }
    }
    let all = up + same + down;
    (all > 0.0).then(|| Moves { up: up / all, same: same / all, down: down / all, top: top / all })
}

/// The trace of a setting in words.
fn trace(points: &[Point<'_>], setting: &Setting) -> Option<String> {
    let view = View::new(points, setting);
    let each = REGIONS.into_iter().filter(|regions| *regions > 1).filter_map(|regions| {
        let separation = dac(regions);
        let share = |of: fn(&Moves) -> f64| {
            let spread = view.figure((CAT, &separation), |point| moves(point).as_ref().map_or(0.0, of));
            spread.map(|spread| spread.mean * 100.0)
        };
        Some(format!(
            "R={regions} {:.0}/{:.0}/{:.0}/{:.0}",
            share(|m| m.up)?,
            share(|m| m.same)?,
            share(|m| m.down)?,
            share(|m| m.top)?
        ))
    });
    let each: Vec<String> = each.collect();
    let moves = "Moves of the collector up/in place/down/into the top region in per cent, CAT";
    (!each.is_empty()).then(|| format!("{moves}, {}: {}.", setting.name(), each.join(", ")))
}

/// The flow tables of a setting, from the first seed: rows are regions before (the last:
/// first writes), columns regions after.
fn flow_tables(points: &[Point<'_>], setting: &Setting) -> Value {
    let view = View::new(points, setting);
    let table = |regions: u8| {
        let separation = dac(regions);
        let point = view.of((CAT, &separation)).next()?;
        let rows = |name: &str| {
            let rows: Vec<Value> = point.flows(name)?.chunks(usize::from(regions)).map(|row| json!(row)).collect();
            Some(rows)
        };
        Some((separation.clone(), json!({"writes": rows("write_flows")?, "cleaning": rows("clean_flows")?})))
    };
    Value::Object(REGIONS.into_iter().filter_map(table).collect())
}

fn beside_fat(layers: &[Point<'_>]) -> Value {
    let of_pattern = |pattern: &'static str| {
        let setting = BESIDE_FAT.with(pattern);
        let view = View::new(layers, &setting);
        let rows = LAYERS.iter().filter_map(|layer| Some(((*layer).to_string(), view.row((layer, ""))?)));
        (setting.name(), Value::Object(rows.collect()))
    };
    Value::Object(["hcf", "rnd", "seq"].map(of_pattern).into_iter().collect())
}

/// A scheme with its figures divided by CAT's.
struct Ranked {
    name: String,
    speed: f64,
    erases: f64,
    least: f64,
    seeds: usize,
    row: Value,
}

impl Ranked {
    fn to_json(&self) -> Value {
        let round = |value: f64| (value * 1e4).round() / 1e4;
        json!({"scheme": self.name, "speed_by_cat": round(self.speed), "erases_by_cat": round(self.erases), "figures": self.row})
    }
}

/// Every scheme tried in a setting, the fastest first; equal ones by name.
fn ranking(points: &[Point<'_>], beyond: &[Point<'_>], setting: &Setting) -> Vec<Ranked> {
    let (here, cat) = (View::new(beyond, setting), View::new(points, setting));
    let mut schemes: Vec<(&str, &str)> =
        beyond.iter().map(|point| (point.collector.as_str(), point.separation)).collect();
    schemes.sort_unstable();
    schemes.dedup();
    let ranked = schemes.into_iter().filter_map(|scheme| {
        let speed = here.ratio_to(cat, scheme, (CAT, "none"), Point::speed)?;
        let erases = here.ratio_to(cat, scheme, (CAT, "none"), Point::erases)?;
        let (name, row) = (format!("{} | {}", scheme.0, scheme.1), here.row(scheme)?);
        Some(Ranked { name, speed: speed.mean, erases: erases.mean, least: speed.min, seeds: speed.seeds, row })
    });
    let mut ranked: Vec<Ranked> = ranked.collect();
    ranked.sort_by(|a, b| b.speed.total_cmp(&a.speed).then_with(|| a.name.cmp(&b.name)));
    ranked
}

/// Which scheme beats CAT, and by how much.
fn beats_cat(ranked: &[Ranked], setting: &Setting) -> Option<String> {
    let best = ranked.first()?;
    let faster = ranked.iter().filter(|scheme| scheme.least > 1.0).count();
    Some(format!(
        "Beyond the paper, {}: of {} schemes {faster} write faster than CAT with every seed; the fastest, {}, {:.2} times as fast with {:.2} of its erases ({} seeds).",
        setting.name(),
        ranked.len(),
        best.name,
        best.speed,
        best.erases,
        best.seeds
    ))
}

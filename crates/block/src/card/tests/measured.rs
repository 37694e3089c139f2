//! The presets measured by request size, recomputed from the tables of their sources.

use super::*;

const MIB: u64 = 1024 * KIB;

/// OLPC, wiki.laptop.org, `SDCard_Testing`: bytes a second from 4 KiB up to 4 MiB, random writes.
const OLPC: [(&str, [u64; 11]); 4] = [
    (
        "sd-olpc-high",
        [
            907_000, 1_240_000, 2_380_000, 2_710_000, 4_620_000, 3_780_000, 4_690_000, 5_160_000, 5_020_000, 6_300_000,
            8_860_000,
        ],
    ),
    (
        "sd-olpc-sandisk-2",
        [19_000, 38_000, 76_000, 155_000, 297_000, 556_000, 868_000, 1_330_000, 2_840_000, 4_090_000, 3_140_000],
    ),
    (
        "sd-olpc-toshiba-4",
        [11_800, 23_000, 47_000, 92_000, 186_000, 363_000, 701_000, 1_300_000, 2_210_000, 3_600_000, 5_840_000],
    ),
    (
        "sd-olpc-unusable",
        [8_000, 23_000, 57_000, 115_000, 226_000, 441_000, 849_000, 1_610_000, 4_470_000, 9_470_000, 15_000_000],
    ),
];

/// bretmlw/sbc-benchmarks: hundredths of MB/s at 4, 8, 64, 512 KiB, 1 and 16 MiB; sequential read,
/// sequential write, random read, random write.
const RASPBERRY_PI_5: [(&str, [[u64; 6]; 4]); 8] = [
    (
        "sd-amazon-64",
        [
            [2407, 3598, 7934, 9152, 9251, 9187],
            [698, 1229, 4248, 6626, 7523, 7603],
            [1536, 2560, 7034, 8876, 9107, 9212],
            [567, 1099, 4029, 6561, 7372, 7569],
        ],
    ),
    (
        "sd-amazon-128",
        [
            [2364, 3416, 7797, 9191, 9253, 9275],
            [483, 909, 4003, 5509, 6705, 6777],
            [1438, 2761, 6903, 8976, 9188, 9243],
            [416, 814, 3745, 5472, 6507, 6807],
        ],
    ),
    (
        "sd-extreme-64",
        [
            [1401, 2093, 7044, 8476, 8102, 8465],
            [307, 590, 2741, 2702, 6220, 6324],
            [1355, 1327, 4760, 7655, 8422, 9235],
            [413, 798, 535, 5108, 5940, 6274],
        ],
    ),
    (
        "sd-extreme-pro-128",
        [
            [1332, 2185, 5665, 7568, 8273, 8665],
            [260, 521, 2869, 6798, 7587, 7664],
            [1301, 1152, 4561, 7290, 8727, 9194],
            [397, 746, 1928, 5766, 6837, 7502],
        ],
    ),
    (
        "sd-pro-plus-128",
        [
            [2346, 5042, 6919, 9051, 9214, 9312],
            [313, 504, 1715, 5163, 6374, 6708],
            [1695, 2707, 6634, 8938, 9152, 9292],
            [308, 517, 1938, 4936, 6078, 6710],
        ],
    ),
    (
        "sd-raspberry-32",
        [
            [2566, 3581, 7828, 9143, 9269, 9248],
            [340, 805, 2177, 3967, 3671, 3387],
            [1898, 2662, 7153, 9012, 9227, 9287],
            [587, 1146, 4208, 3507, 3655, 3410],
        ],
    ),
    (
        "sd-raspberry-64",
        [
            [2888, 3907, 6695, 8710, 8958, 9099],
            [1152, 1600, 2553, 5977, 7263, 7450],
            [2314, 3042, 5895, 8541, 9057, 9131],
            [1643, 2800, 5641, 7402, 7927, 7502],
        ],
    ),
    (
        "sd-raspberry-128",
        [
            [2826, 3911, 6070, 8544, 9047, 9096],
            [1155, 1580, 2546, 5847, 7251, 7564],
            [2302, 3056, 5823, 8390, 8955, 9077],
            [1674, 2859, 5816, 7789, 8092, 7589],
        ],
    ),
];

/// A row of a table that includes units.
type MeasuredUnits = (&'static str, [u64; 4], u64, u64, u64, u32);

/// pctips.click: random writes of 4, 16, 64 and 512 KiB, sequential write, in hundredths of MB/s;
/// read latency; unit; open units.
const WITH_GEOMETRY: [MeasuredUnits; 2] = [
    ("sd-lexar-16", [120, 454, 878, 1207], 1120, 100_000, 4 * MIB, 5),
    ("sd-ultra-64", [218, 620, 1350, 1820], 1590, 850_000, 24 * MIB, 64),
];

/// Rule 1: bytes / speed, to the nearest nanosecond.
fn time_ns(bytes: u64, bytes_per_s: u64) -> u64 {
    (bytes * 1_000_000_000 + bytes_per_s / 2) / bytes_per_s
}

/// Rules 1 and 2.
fn curve(sizes: &[u64], speeds: &[u64]) -> Curve {
    assert_eq!(sizes.len(), speeds.len());
    let points: Vec<_> = sizes.iter().zip(speeds).map(|(&bytes, &speed)| (bytes, time_ns(bytes, speed))).collect();
    Curve::monotone(&points).0
}

/// Rule 3 for sequential writes with a single known speed.
fn from_32_kib(speed: u64, random: &Curve) -> Curve {
    let least = time_ns(32 * KIB, speed);
    let small = least.min(random.time(4 * KIB).0);
    Curve::new(vec![(4 * KIB, small), (32 * KIB, least), (4 * MIB, time_ns(4 * MIB, speed))])
}

fn hundredths(speeds: &[u64]) -> Vec<u64> {
    speeds.iter().map(|speed| speed * 10_000).collect()
}

#[test]
fn olpcs_cards_are_its_table() {
    let sizes: Vec<u64> = (0..11).map(|power| (4 * KIB) << power).collect();
    let transcend = presets::load("sd-transcend-2").unwrap();
    for (name, speeds) in OLPC {
        let spec = presets::load(name).unwrap();
        assert_eq!(spec.curves.write_random, curve(&sizes, &speeds), "{name}");
        let best = speeds.into_iter().max().unwrap();
        assert_eq!(spec.curves.write_sequential, from_32_kib(best, &spec.curves.write_random), "{name}");
        for bytes in [4 * KIB, 128 * KIB] {
            for pattern in [Pattern::Sequential, Pattern::Random] {
                assert_eq!(spec.read_time(pattern, bytes), transcend.read_time(pattern, bytes), "{name}");
            }
        }
        assert_eq!(spec.open_units.merge_ns, 0, "{name}");
        assert_eq!(spec.spread_write_time(64 * KIB), spec.write_time(Pattern::Random, 64 * KIB), "{name}");
    }
}

#[test]
fn cards_on_a_raspberry_pi_5_are_their_table() {
    let sizes = [4 * KIB, 8 * KIB, 64 * KIB, 512 * KIB, MIB, 16 * MIB];
    for (name, columns) in RASPBERRY_PI_5 {
        let CurveSpec { read_sequential, write_sequential, read_random, write_random } =
            presets::load(name).unwrap().curves;
        let found = [read_sequential, write_sequential, read_random, write_random];
        let expected = columns.map(|speeds| curve(&sizes, &hundredths(&speeds)));
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn cards_with_geometry_are_what_was_measured() {
    let sizes = [4 * KIB, 16 * KIB, 64 * KIB, 512 * KIB];
    for (name, speeds, sequential, latency, unit, count) in WITH_GEOMETRY {
        let spec = presets::load(name).unwrap();
        assert_eq!(spec.curves.write_random, curve(&sizes, &hundredths(&speeds)), "{name}");
        let expected = from_32_kib(sequential * 10_000, &spec.curves.write_random);
        assert_eq!(spec.curves.write_sequential, expected, "{name}");
        for bytes in [4 * KIB, MIB] {
            let times = [Pattern::Random, Pattern::Sequential].map(|pattern| spec.read_time(pattern, bytes).0);
            assert_eq!(times[0] - times[1], latency, "{name}");
        }
        assert_eq!((spec.open_units.size, spec.open_units.count), (unit, count), "{name}");
        let closing = if name == "sd-lexar-16" { time_ns(unit, 11_200_000) } else { 0 };
        assert_eq!(spec.open_units.merge_ns, closing, "{name}");
    }
}

#[test]
fn every_card_has_a_source_for_each_figure() {
    for (name, text) in presets::all() {
        let spec = presets::load(name).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(spec.name, name);
        assert!(spec.title.len() > 10 && text.contains("assumption"), "{name}");
        spec.check_sources().unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

/// P1: A is of class 2 and differs least, B and C are of class 10, and C differs most. The measure
/// is how much slower a byte is in a random 4 KiB write than in the card's best writes.
#[test]
fn p1s_roles_are_in_its_order() {
    let factors_of = |spec: &CardSpec| {
        let per_byte = |time: Nanos, bytes: u64| time.0 as f64 / bytes as f64;
        let best = [Pattern::Random, Pattern::Sequential]
            .map(|pattern| per_byte(spec.write_time(pattern, 16 * MIB), 16 * MIB));
        let small = [spec.write_time(Pattern::Random, 4 * KIB), spec.spread_write_time(4 * KIB)];
        small.map(|time| per_byte(time, 4 * KIB) / best[0].min(best[1]))
    };
    let factors = ["card-a", "card-b", "card-c"].map(|name| {
        let role = presets::role(name).unwrap().unwrap();
        let (spec, played) = (presets::load(name).unwrap(), presets::load(&role.preset).unwrap());
        assert_eq!((spec.name.as_str(), &spec.curves, &spec.sources), (name, &played.curves, &played.sources));
        assert!(spec.title.ends_with(&role.preset) && role.reason.len() > 100, "{name}");
        assert!(role.alternatives.len() >= 3, "{name}");
        for (other, why) in &role.alternatives {
            assert!(presets::load(other).is_ok() && *other != role.preset && why.len() > 10, "{name}: {other}");
        }
        factors_of(&spec)
    });
    // Inside an open unit, and over the card.
    for [a, b, c] in [0, 1].map(|kind| factors.map(|of_card| of_card[kind])) {
        assert!(a < 4.0 && b > 2.0 * a && c > 2.0 * b, "{factors:?}");
    }
    assert_eq!(presets::role("sd-pny-10"), Ok(None));
    assert_eq!(presets::load("CARD-A").unwrap().name, "card-a");
}

//! The house: which crate may use which. ARCHITECTURE.md gives the reasons.

/// One crate of the workspace and what it may do.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// The directory under crates/, and the package name without `nandkit-`.
    pub name: &'static str,
    /// The crates of the house that it may depend on.
    pub uses: &'static [&'static str],
    /// The crates that its tests, benches and examples may use besides.
    pub tests_use: &'static [&'static str],
    /// Whether its library may touch files, processes and the environment.
    pub system: bool,
    /// Whether it may read the wall clock and write to the terminal: the doors.
    pub door: bool,
}

const fn room(name: &'static str, uses: &'static [&'static str], tests_use: &'static [&'static str]) -> Room {
    Room { name, uses, tests_use, system: false, door: false }
}

impl Room {
    const fn with_system(self) -> Self {
        Self { system: true, ..self }
    }

    const fn as_door(self) -> Self {
        Self { system: true, door: true, ..self }
    }
}

/// Every crate of the workspace.
pub const HOUSE: &[Room] = &[
    // foundations
    room("units", &[], &[]),
    room("codec", &["units"], &[]),
    room("cleaning", &["units"], &["theory"]),
    room("theory", &[], &["units"]),
    // contracts
    room("flash", &["units"], &["testkit"]),
    room("block", &["units"], &["testkit"]).with_system(),
    room("vfs", &["units"], &["testkit"]),
    room("cache", &[], &[]),
    // devices and translation
    room("nand-sim", &["units", "flash", "block", "codec"], &["testkit"]),
    room("flash-image", &["units", "codec", "flash", "block"], &["testkit"]).with_system(),
    room("ftl", &["units", "codec", "flash", "block", "cleaning"], &["testkit", "nand-sim", "theory"]),
    // doors for block devices
    room("nbd", &["units", "block"], &[]).as_door(),
    // doors for file systems
    room("fuse", &["units", "vfs"], &[]).as_door(),
    // file systems
    room("fat", &["units", "codec", "block", "cache", "vfs"], &["testkit"]),
    room("jffs2", &["units", "codec", "cleaning", "flash", "vfs"], &["testkit"]),
    room("f2fs", &["units", "codec", "block", "cache", "cleaning", "vfs"], &["testkit"]),
    room("ubi", &["units", "codec", "flash", "vfs"], &["testkit"]),
    room("ubifs", &["units", "cleaning", "codec", "vfs"], &["testkit"]),
    // driving
    room("tree", &["units", "vfs"], &[]).with_system(),
    room("remap", &["units", "vfs"], &[]),
    room("workload", &["units", "vfs", "block"], &["testkit", "flash", "nand-sim"]).with_system(),
    room(
        "stack",
        &[
            "units",
            "codec",
            "flash",
            "block",
            "vfs",
            "cleaning",
            "nand-sim",
            "flash-image",
            "ftl",
            "fat",
            "jffs2",
            "f2fs",
            "ubi",
            "ubifs",
        ],
        &["testkit", "remap"],
    )
    .with_system(),
    room("record", &["units"], &[]),
    room(
        "lab",
        &["units", "flash", "block", "vfs", "cleaning", "theory", "remap", "workload", "stack", "record"],
        &["testkit"],
    )
    .with_system(),
    room("report", &["units", "record"], &[]),
    // doors
    room(
        "nandkit",
        &["units", "flash", "block", "vfs", "tree", "workload", "stack", "lab", "record", "report"],
        &["testkit"],
    ),
    room(
        "cli",
        &[
            "units", "block", "nbd", "fuse", "vfs", "tree", "remap", "cleaning", "workload", "stack", "lab", "record",
            "report",
        ],
        &["testkit"],
    )
    .as_door(),
    // tests: nothing of it is in a product, and a planted race has to wait for its rival
    room("judges", &[], &[]).as_door(),
    room("testkit", &["units", "flash", "block", "vfs", "judges"], &[]).as_door(),
];

/// The package name of a room.
pub fn package(room: &str) -> String {
    match room {
        "nandkit" => room.to_owned(),
        _ => format!("nandkit-{room}"),
    }
}

/// Crates from outside that only some rooms may depend on, in anything but tests, and why.
pub const OUTSIDE: &[(&str, &[&str], &str)] = &[
    ("anyhow", &["cli"], "libraries have errors of a kind that a caller can act on"),
    ("clap", &["cli"], "only the doors know a command line"),
    ("indicatif", &["cli"], "only the doors know a terminal"),
    (
        "rayon",
        &["lab", "tree", "cli", "jffs2", "ubifs"],
        "a run is one thread; only grids of runs, the files of a tree, and images that are built or scanned go in parallel",
    ),
    ("fuser", &["fuse"], "only a door talks to the kernel"),
    ("fatfs", &[], "it is a judge: what is judged does not use it"),
    ("proptest", &["testkit"], "it belongs to tests"),
    ("criterion", &[], "it belongs to benches"),
    ("tempfile", &["testkit", "lab", "tree", "cli"], "it touches the operating system"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn find(name: &str) -> Room {
        *HOUSE.iter().find(|room| room.name == name).unwrap()
    }

    /// The devices and translation layers, and the file systems.
    const BELOW: [&str; 3] = ["nand-sim", "flash-image", "ftl"];
    const FILE_SYSTEMS: [&str; 5] = ["fat", "jffs2", "f2fs", "ubi", "ubifs"];

    /// The edges of a table that break an invariant of ARCHITECTURE.md, whatever the table says:
    /// `from -> to`.
    fn forbidden_edges(house: &[Room]) -> Vec<String> {
        let mut found = Vec::new();
        for room in house {
            let is_implementation = |name: &&str| BELOW.contains(name) || FILE_SYSTEMS.contains(name);
            let also_in_tests = |name: &&str| is_implementation(name) || ["lab", "stack"].contains(name);
            let uses =
                room.uses.iter().filter(|name| **name == "testkit" || room.name != "stack" && is_implementation(name));
            let tests = room.tests_use.iter().filter(|name| FILE_SYSTEMS.contains(&room.name) && also_in_tests(name));
            let drives =
                room.uses.iter().filter(|name| FILE_SYSTEMS.contains(&room.name) && ["lab", "stack"].contains(name));
            found.extend(uses.chain(tests).chain(drives).map(|to| format!("{} -> {to}", room.name)));
        }
        found
    }

    #[test]
    fn the_table_keeps_the_invariants() {
        assert_eq!(forbidden_edges(HOUSE), [""; 0]);
        assert_eq!(find("cleaning").uses, ["units"]);
        assert_eq!(find("report").uses, ["units", "record"]);
        for name in ["flash", "block", "vfs"] {
            assert_eq!(find(name).uses, ["units"]);
        }
        // A new room under one of these headings belongs into the lists above.
        let between = |first: &str, after: &str| {
            let at = |name: &str| HOUSE.iter().position(|room| room.name == name).unwrap();
            HOUSE[at(first)..at(after)].iter().map(|room| room.name).collect::<Vec<_>>()
        };
        assert_eq!(between("nand-sim", "nbd"), BELOW);
        assert_eq!(between("fat", "tree"), FILE_SYSTEMS);
    }

    #[test]
    fn a_table_with_a_forbidden_edge_is_refused() {
        for (from, to) in [
            ("lab", "jffs2"),
            ("lab", "fat"),
            ("nandkit", "ftl"),
            ("cli", "jffs2"),
            ("jffs2", "nand-sim"),
            ("jffs2", "flash-image"),
            ("jffs2", "fat"),
            ("jffs2", "stack"),
            ("fat", "jffs2"),
            ("fat", "lab"),
            ("ftl", "nand-sim"),
            ("stack", "testkit"),
        ] {
            let with = |room: Room| if room.name == from { Room { uses: vec![to].leak(), ..room } } else { room };
            let house: Vec<Room> = HOUSE.iter().copied().map(with).collect();
            assert_eq!(forbidden_edges(&house), [format!("{from} -> {to}")]);
        }
        for (from, to) in [("jffs2", "nand-sim"), ("jffs2", "stack"), ("fat", "ftl")] {
            let with = |room: Room| if room.name == from { Room { tests_use: vec![to].leak(), ..room } } else { room };
            let house: Vec<Room> = HOUSE.iter().copied().map(with).collect();
            assert_eq!(forbidden_edges(&house), [format!("{from} -> {to}")]);
        }
    }

    #[test]
    fn there_is_no_way_round_in_a_circle() {
        // Each room uses only rooms that can be built before it: take away, again and again, those
        // whose needs are met.
        let mut built: Vec<&str> = Vec::new();
        while built.len() < HOUSE.len() {
            let next = HOUSE
                .iter()
                .find(|room| !built.contains(&room.name) && room.uses.iter().all(|name| built.contains(name)))
                .expect("a circle of dependencies");
            built.push(next.name);
        }
    }
}

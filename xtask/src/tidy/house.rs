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
    room("cleaning", &["units"], &[]),
    // contracts
    room("flash", &["units"], &["testkit"]),
    room("block", &["units"], &["testkit"]).with_system(),
    room("vfs", &["units"], &["testkit"]),
    room("cache", &["units"], &["testkit"]),
    // devices and translation
    room("nand-sim", &["units", "flash", "block", "codec"], &["testkit"]),
    room("flash-image", &["units", "codec", "flash", "block"], &["testkit"]).with_system(),
    room("ftl", &["units", "codec", "flash", "block", "cleaning"], &["testkit", "nand-sim"]),
    // doors for block devices
    room("nbd", &["units", "block"], &[]).as_door(),
    // file systems
    room("fat", &["units", "codec", "block", "cache", "vfs"], &["testkit"]),
    room("jffs2", &["units", "codec", "cleaning", "flash", "vfs"], &["testkit"]),
    // driving
    room("tree", &["units", "vfs"], &[]).with_system(),
    room("workload", &["units", "vfs", "block"], &["testkit"]).with_system(),
    room(
        "stack",
        &["units", "codec", "flash", "block", "vfs", "cleaning", "nand-sim", "flash-image", "ftl", "fat", "jffs2"],
        &["testkit"],
    )
    .with_system(),
    room("record", &[], &[]),
    room("lab", &["units", "flash", "block", "vfs", "cleaning", "workload", "stack", "record"], &["testkit"])
        .with_system(),
    room("report", &["record"], &[]),
    // doors
    room(
        "nandkit",
        &["units", "flash", "block", "vfs", "tree", "workload", "stack", "lab", "record", "report"],
        &["testkit"],
    ),
    room(
        "cli",
        &["units", "block", "nbd", "vfs", "tree", "cleaning", "workload", "stack", "lab", "record", "report"],
        &["testkit"],
    )
    .as_door(),
    // tests: nothing of it is in a product, and a planted race has to wait for its rival
    room("testkit", &["units", "flash", "block", "vfs"], &[]).as_door(),
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
        &["lab", "tree", "cli", "jffs2"],
        "a run is one thread; only grids of runs, the files of a tree, and images that are built or scanned go in parallel",
    ),
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

    /// The devices, translation layers and file systems.
    const IMPLEMENTATIONS: [&str; 4] = ["nand-sim", "flash-image", "ftl", "fat"];

    #[test]
    fn the_table_keeps_the_invariants() {
        for room in HOUSE.iter().filter(|room| room.name != "stack") {
            assert!(!room.uses.iter().any(|name| IMPLEMENTATIONS.contains(name)), "only stack names implementations");
            assert!(!room.uses.contains(&"testkit"), "testkit is for tests");
        }
        assert_eq!(find("cleaning").uses, ["units"]);
        assert_eq!(find("report").uses, ["record"]);
        for name in ["flash", "block", "vfs"] {
            assert_eq!(find(name).uses, ["units"]);
        }
        for forbidden in ["nand-sim", "ftl", "lab", "stack"] {
            assert!(!find("fat").uses.contains(&forbidden) && !find("fat").tests_use.contains(&forbidden));
        }
    }

    #[test]
    fn there_is_no_way_round_in_a_circle() {
        // Each room uses only rooms that can be built before it: take away, again and again, those whose needs are met.
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

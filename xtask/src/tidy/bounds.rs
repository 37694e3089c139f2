//! The bounds of `cargo xtask tidy` that are numbers and lists. A number may only fall: where a
//! change lowers the count, lower the number here in the same commit (`tidy` prints a note).

/// A file system's name, and how many files outside its own places may say it.
#[derive(Clone, Copy, Debug)]
pub struct FormatBound {
    /// The format, as its crate and its folder in `stack/src/format` are called.
    pub name: &'static str,
    /// Files outside its crate and its folder that name it, in code or in their path.
    pub files_max: usize,
}

/// The formats. The aim is at most 8 files each.
pub const FORMATS: &[FormatBound] = &[
    FormatBound { name: "f2fs", files_max: 6 },
    FormatBound { name: "jffs2", files_max: 5 },
    FormatBound { name: "fat", files_max: 6 },
    // Its command stands in the lists of commands.
    FormatBound { name: "ubi", files_max: 8 },
    FormatBound { name: "ubifs", files_max: 8 },
];

/// Public modules that a crate may have.
pub const PUBLIC_MODULES_MAX: usize = 10;

/// Crates that have more, how many, and why.
pub const PUBLIC_MODULES_MORE: &[(&str, usize, &str)] = &[("testkit", 15, "a suite a module, and in no product")];

/// A circle of modules that is allowed.
#[derive(Clone, Copy, Debug)]
pub struct AllowedCircle {
    /// The crate's folder below `crates/`, or `xtask`.
    pub room: &'static str,
    /// The modules, by their paths from the crate's root; a circle among some of them is allowed.
    pub modules: &'static [&'static str],
    /// Why it does no harm, or what will end it.
    pub why: &'static str,
}

const fn circle(room: &'static str, modules: &'static [&'static str], why: &'static str) -> AllowedCircle {
    AllowedCircle { room, modules, why }
}

const METHODS: &str = "methods of one type in several files";

/// The circles that are allowed.
pub const CIRCLES: &[AllowedCircle] = &[
    circle("f2fs", &["check::file", "check::walk"], "the walk over files, and what it expects of them"),
    circle("ubifs", &["files", "mount", "properties", "read", "write"], METHODS),
    circle("fat", &["directory", "inode", "preallocated", "table", "volume"], METHODS),
    circle("jffs2", &["volume", "write", "xattr"], METHODS),
    circle("workload", &["calls", "trace"], "one replays what the other reads; each knows the other's first bytes"),
    circle("workload", &["drive", "operation", "report"], "operations, what applies them, and what they came to"),
    circle("tree", &["adjust", "device_table"], "a device table is one of the adjustments"),
    circle("tree", &["extract", "mounted"], "the two ways of a tree out of a volume share their notes"),
    circle("testkit", &["model_compare::agree", "model_compare::execute"], "a value, and what it is compared by"),
    circle("theory", &["hot_cold", "mixed", "separated"], "one population, and the two answers for it"),
];

/// The longest line of a comment, and of prose in a document, that is not counted.
pub const COMMENT_COLUMNS: usize = 100;
/// Longer ones: lines of tables, and of examples that a wrap would break.
pub const LONG_COMMENTS_MAX: usize = 36;
/// Longer lines of prose in documents. The aim is that only addresses and lists that a wrap would
/// break are longer.
pub const LONG_PROSE_MAX: usize = 12;
/// Doc comments that begin with "The same", which says nothing where they are read alone.
pub const SAME_DOCS_MAX: usize = 8;

/// Definitions of "a checker has no complaint" outside `judges`. The aim is none.
pub const JUDGES_ELSEWHERE_MAX: usize = 0;
/// `#[path]` attributes that leave their crate. The aim is none.
pub const PATHS_OUTSIDE_MAX: usize = 0;

/// The commit behind which every subject keeps to [`SUBJECT_COLUMNS`].
pub const SUBJECTS_SINCE: &str = "b8e5a9e";
/// The longest subject of a commit.
pub const SUBJECT_COLUMNS: usize = 72;

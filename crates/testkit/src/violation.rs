//! Reports of conformance suites: which promise was broken, and how.

use std::any::Any;
use std::fmt;

/// One broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The check that found it; a stable name.
    pub check: &'static str,
    /// What was done, what came out and what was promised.
    pub detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.check, self.detail)
    }
}

/// All broken promises that a suite found; never empty.
#[derive(Clone, PartialEq, Eq)]
pub struct Violations(pub Vec<Violation>);

impl Violations {
    /// Nothing found is success.
    pub fn or_ok(found: Vec<Violation>) -> Result<(), Self> {
        if found.is_empty() { Ok(()) } else { Err(Self(found)) }
    }

    /// Whether the check of this name found something.
    pub fn has(&self, check: &str) -> bool {
        self.0.iter().any(|violation| violation.check == check)
    }
}

impl fmt::Display for Violations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for violation in &self.0 {
            writeln!(f, "{violation}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Violations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} broken promises:\n{self}", self.0.len())
    }
}

impl std::error::Error for Violations {}

/// The name under which a panic in any check is reported.
pub const NO_PANIC: &str = "no_panic";

/// The checks of a suite for which none of the planted faults is meant, in the suite's order.
pub fn without_fault<'a>(
    checks: impl IntoIterator<Item = &'static str>,
    planted_for: impl IntoIterator<Item = &'a str>,
) -> Vec<&'static str> {
    let planted_for: Vec<&str> = planted_for.into_iter().collect();
    checks.into_iter().filter(|check| !planted_for.contains(check)).collect()
}

/// Runs one check; a panic is a violation of its own.
pub fn guarded(check: &'static str, place: &str, run: impl FnOnce() -> Result<(), String>) -> Option<Violation> {
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)) {
        Ok(Ok(())) => None,
        Ok(Err(detail)) => Some(Violation { check, detail: format!("{detail} ({place})") }),
        Err(panic) => {
            let detail = format!("check {check} made the device panic: {} ({place})", message(panic.as_ref()));
            Some(Violation { check: NO_PANIC, detail })
        }
    }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}

/// Fails with the formatted message unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($message:tt)*) => {
        if !$condition {
            return Err(format!($($message)*));
        }
    };
}
pub(crate) use ensure;

//! Arguments of `report`, and of every command that writes a page.

use std::path::PathBuf;

use clap::Args;

/// Options for the HTML page of a result.
#[derive(Clone, Debug, Default, Args)]
pub struct PageOptions {
    /// Also write the result as an HTML page: one file with plots and tables that needs no network.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Replace an existing FILE of --html.
    #[arg(long, requires = "html")]
    pub force: bool,
}

/// Arguments of `report`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  nandkit report results/runs.jsonl --html page.html
  nandkit report one.json other.json
  nandkit report after.jsonl --against before.jsonl --html changes.html
  nandkit report claims.json --html claims.html            the output of reproduce --json")]
pub struct ReportArguments {
    /// Records of runs or claims, as written by `run --out`, `exec --json`, `run --json`, `compare
    /// --json` and `reproduce --json`; - for standard input.
    #[arg(value_name = "RECORDS", required = true)]
    pub records: Vec<PathBuf>,
    /// Older records to compare with: report what has changed since.
    #[arg(long, value_name = "RECORDS")]
    pub against: Vec<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub page: PageOptions,
}

//! The width of the picture of `nandkit info --segments`.

/// Columns if standard output is not a terminal.
const COLUMNS: usize = 100;

/// The width of the terminal in columns, or [`COLUMNS`].
pub fn columns() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok();
    size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0).unwrap_or(COLUMNS)
}

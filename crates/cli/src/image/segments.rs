//! `nandkit info --segments`: how wide the picture is.

/// Columns where standard output is no terminal.
const COLUMNS: usize = 100;

/// The width of the terminal, where standard output is one.
pub fn columns() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok();
    size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0).unwrap_or(COLUMNS)
}

//! The commands that a page shows.

use anyhow::{Result, bail};

/// A command of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// The line of the page, from 1 on.
    pub line: usize,
    /// The text for the shell.
    pub text: String,
    /// The lines that it prints by the page; `None` where the page shows no output.
    pub shown: Option<Vec<String>>,
}

/// The mark above a block that is run. After a colon it may have a command that prepares the block.
const RUN: &str = "<!-- run";
/// The mark above a block that is not run, with the reason behind a colon.
const NOT_RUN: &str = "<!-- not run:";
/// A further mark above a block that is run: its lines with the text between the backquotes are not
/// run, for the reason behind a colon.
const NOT_THE_LINES: &str = "<!-- not the lines with `";
/// The mark of a page of which no block is run, with the reason behind a colon.
const PAGE_NOT_RUN: &str = "<!-- page not run:";

/// The commands of all blocks of a page that have the mark [`RUN`]. A block that may have commands
/// and has no mark is an error: each one is run, or the page says why not.
///
/// In a block with a line that begins with `$`, these lines are commands and the others what they
/// print. In any other block each line is a command, and what stands behind three spaces is for the
/// reader. Errors: what does not fit the form, with its line.
pub fn commands(page: &str) -> Result<Vec<Command>> {
    if page.lines().any(|line| line.strip_prefix(PAGE_NOT_RUN).is_some_and(has_reason)) {
        return Ok(Vec::new());
    }
    let mut commands = Vec::new();
    let (mut block, mut mark): (Option<Block>, Option<(usize, &str)>) = (None, None);
    let mut left_out: Vec<&str> = Vec::new();
    for (number, line) in page.lines().enumerate().map(|(index, line)| (index + 1, line)) {
        match (block.take(), line.trim_start().starts_with("```")) {
            (Some(open), true) => commands.extend(open.commands()?),
            (Some(mut open), false) => {
                open.lines.push((number, line));
                block = Some(open);
            }
            (None, true) => {
                let run = mark.filter(|(_, mark)| mark.starts_with(RUN));
                // A block tagged with another language than the shell's holds no commands.
                let has_commands = matches!(line.trim().trim_start_matches('`'), "" | "sh" | "console");
                if has_commands && mark.is_none() {
                    bail!("{number}: this block has no mark: write `{RUN} -->` or `{NOT_RUN} why -->` above it");
                }
                if let Some(prepared) = run.and_then(|(at, mark)| Some((at, preparation(mark)?))) {
                    let (line, text) = (prepared.0, prepared.1.to_owned());
                    commands.push(Command { line, text, shown: None });
                }
                let left_out = std::mem::take(&mut left_out);
                block = Some(Block { is_run: run.is_some(), first: number, left_out, lines: Vec::new() });
                mark = None;
            }
            (None, false) if line.starts_with(RUN) => mark = Some((number, line)),
            (None, false) if line.starts_with(NOT_RUN) => {
                if !line.strip_prefix(NOT_RUN).is_some_and(has_reason) {
                    bail!("{number}: this mark has no reason");
                }
                mark = Some((number, line));
            }
            (None, false) if line.starts_with(NOT_THE_LINES) => {
                let named = line.strip_prefix(NOT_THE_LINES).and_then(|rest| rest.split_once("`:"));
                match named.filter(|(_, reason)| has_reason(reason)) {
                    Some((text, _)) => left_out.push(text),
                    None => bail!("{number}: this mark has no reason"),
                }
            }
            // Marks of other kinds may be between.
            (None, false) if line.starts_with("<!--") => {}
            (None, false) => {
                if let Some((at, _)) = mark {
                    bail!("{at}: this mark stands above no block");
                }
            }
        }
    }
    Ok(commands)
}

/// Whether a reason stands before the end of a mark.
fn has_reason(rest: &str) -> bool {
    rest.trim().strip_suffix("-->").is_some_and(|reason| !reason.trim().is_empty())
}

fn preparation(mark: &str) -> Option<&str> {
    mark.strip_prefix(RUN)?.strip_prefix(':')?.strip_suffix("-->").map(str::trim)
}

struct Block<'p> {
    is_run: bool,
    /// The line of its beginning.
    first: usize,
    /// Texts of lines that are not run.
    left_out: Vec<&'p str>,
    lines: Vec<(usize, &'p str)>,
}

impl Block<'_> {
    fn commands(self) -> Result<Vec<Command>> {
        if !self.is_run {
            return Ok(Vec::new());
        }
        if let Some(text) = self.left_out.iter().find(|text| !self.lines.iter().any(|(_, line)| line.contains(**text)))
        {
            bail!("{}: no line of this block has '{text}', which a mark leaves out", self.first);
        }
        let has_output = self.lines.iter().any(|(_, line)| line.starts_with("$ "));
        let mut commands: Vec<Command> = Vec::new();
        for (number, line) in self.lines {
            match (has_output, line.strip_prefix("$ "), commands.last_mut()) {
                (true, Some(text), _) => {
                    commands.push(Command { line: number, text: text.to_owned(), shown: Some(Vec::new()) });
                }
                (true, None, Some(Command { shown: Some(shown), .. })) => shown.push(line.trim_end().to_owned()),
                (true, None, _) => bail!("{number}: '{line}' stands before any command"),
                (false, ..) => {
                    let text = without_remark(line);
                    let is_left_out = self.left_out.iter().any(|part| line.contains(part));
                    if !is_left_out && !text.is_empty() && !text.starts_with('#') {
                        commands.push(Command { line: number, text: text.to_owned(), shown: None });
                    }
                }
            }
        }
        Ok(commands)
    }
}

/// A line without the remark for the reader after three spaces.
pub fn without_remark(line: &str) -> &str {
    let line = line.trim();
    line.find("   ").and_then(|end| line.get(..end)).unwrap_or(line).trim_end()
}

/// Whether what was printed has the shape that a page shows: each line begins with the same word. A
/// word that begins with a digit stands for any other that does; `...` alone in a line stands for
/// any number of lines.
pub fn fits(shown: &[String], told: &[&str]) -> bool {
    match (shown.split_first(), told.split_first()) {
        (None, None) => true,
        (Some((first, rest)), _) if first.trim() == "..." => {
            (0..=told.len()).any(|skipped| told.get(skipped..).is_some_and(|told| fits(rest, told)))
        }
        (Some((shown, rest)), Some((line, further))) => first_word(shown) == first_word(line) && fits(rest, further),
        _ => false,
    }
}

/// The star of a comparison's best row is not taken as a word, since another row may be best.
fn first_word(line: &str) -> &str {
    let word = line.split_whitespace().find(|word| *word != "*").unwrap_or_default();
    if word.starts_with(|letter: char| letter.is_ascii_digit()) { "0" } else { word }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(page: &str) -> Vec<(usize, String)> {
        commands(page).unwrap().into_iter().map(|command| (command.line, command.text)).collect()
    }

    #[test]
    fn marked_blocks_are_commands() {
        let page = "# P\n\n<!-- run: touch a -->\n```\nls a     the file\n# a remark\n\ncat a\n```\n\n<!-- not run: why -->\n```\nrm a\n```\n";
        assert_eq!(texts(page), [(3, "touch a".into()), (5, "ls a".into()), (8, "cat a".into())]);
        let page = "<!-- run -->\n<!-- other -->\n```console\n$ ls   a\nx  1\n$ true\n```\n";
        let found = commands(page).unwrap();
        assert_eq!(found[0], Command { line: 4, text: "ls   a".into(), shown: Some(vec!["x  1".into()]) });
        assert_eq!(found[1].shown, Some(Vec::new()));
    }

    #[test]
    fn lines_and_pages_may_be_left_out() {
        let page = "<!-- run -->\n<!-- not the lines with `serve`: until Ctrl-C -->\n```\nserve a\nls\n```\n";
        assert_eq!(texts(page), [(5, "ls".into())]);
        assert_eq!(texts("<!-- page not run: needs a phone -->\n\n```\nfastboot\n```\n"), []);
    }

    #[test]
    fn what_has_no_form_is_told_with_its_line() {
        for (page, part) in [
            ("text\n```\nls\n```\n", "2: this block has no mark"),
            ("<!-- run -->\ntext\n", "1: this mark stands above no block"),
            ("<!-- not run: -->\n```\nls\n```\n", "1: this mark has no reason"),
            (
                "<!-- run -->\n<!-- not the lines with `b`: why -->\n```\nls a\n```\n",
                "3: no line of this block has 'b'",
            ),
            ("<!-- run -->\n<!-- not the lines with `a`: -->\n```\nls a\n```\n", "2: this mark has no reason"),
            ("<!-- run -->\n```\nx\n$ ls\n```\n", "3: 'x' stands before any command"),
        ] {
            assert!(commands(page).unwrap_err().to_string().contains(part), "{part}");
        }
        for page in ["text\n```toml\na = 1\n```\n", "<!-- not run: needs a phone -->\n```\nfastboot\n```\n"] {
            assert_eq!(commands(page).unwrap(), []);
        }
    }

    #[test]
    fn shapes_are_compared_by_first_words() {
        let shown = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        let page = shown("file 12 bytes\n...\n17 names\n");
        assert!(fits(&page, &["file 9 bytes", "3 names"]) && fits(&page, &["file 9 bytes", "x", "y", "3 names"]));
        for wrong in [&["file 9 bytes"][..], &["files", "3 names"], &["file 9", "3 names", "more"], &[]] {
            assert!(!fits(&page, wrong), "{wrong:?}");
        }
    }
}

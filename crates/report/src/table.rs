//! Text tables with aligned columns.

/// On which side of its column a cell stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Left, for texts.
    Left,
    /// Right, for numbers.
    Right,
}

/// A table whose columns are as wide as their widest cell, two blanks apart, without blanks at the
/// end of a line.
#[derive(Clone, Debug, Default)]
pub struct Table {
    columns: Vec<(String, Align)>,
    /// Columns that one blank separates from the next.
    narrow: Vec<usize>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these column heads.
    pub fn new(columns: impl IntoIterator<Item = (impl Into<String>, Align)>) -> Self {
        let columns = columns.into_iter().map(|(head, align)| (head.into(), align)).collect();
        Self { columns, ..Self::default() }
    }

    /// Leaves only one blank after these columns, numbered from 0.
    pub fn with_one_blank_after(self, columns: &[usize]) -> Self {
        Self { narrow: columns.to_vec(), ..self }
    }

    /// Adds a row; cells that are missing stay empty, cells beyond the columns are left out.
    pub fn row(&mut self, cells: impl IntoIterator<Item = impl Into<String>>) {
        self.rows.push(cells.into_iter().map(Into::into).take(self.columns.len()).collect());
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The lines: the heads, unless all are empty, then the rows.
    pub fn lines(&self) -> Vec<String> {
        let cell = |row: &[String], column: usize| row.get(column).cloned().unwrap_or_default();
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|column| {
                let head = self.columns.get(column).map_or(0, |(head, _)| width(head));
                self.rows.iter().map(|row| row.get(column).map_or(0, |cell| width(cell))).fold(head, usize::max)
            })
            .collect();
        let line = |cells: &dyn Fn(usize) -> String| {
            let mut line = String::new();
            for (column, ((_, align), room)) in self.columns.iter().zip(&widths).enumerate() {
                if *room == 0 {
                    continue;
                }
                let text = cells(column);
                let blanks = " ".repeat(room.saturating_sub(width(&text)));
                match align {
                    Align::Left => line.extend([text.as_str(), &blanks]),
                    Align::Right => line.extend([blanks.as_str(), &text]),
                }
                line.push_str(if self.narrow.contains(&column) { " " } else { "  " });
            }
            line.trim_end().to_string()
        };
        let mut lines = Vec::with_capacity(self.rows.len() + 1);
        if self.columns.iter().any(|(head, _)| !head.is_empty()) {
            lines.push(line(&|column| self.columns.get(column).map(|(head, _)| head.clone()).unwrap_or_default()));
        }
        lines.extend(self.rows.iter().map(|row| line(&|column| cell(row, column))));
        lines
    }

    /// The table as Markdown (GitHub's), without emphasis of its own.
    pub fn markdown(&self) -> String {
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let escaped = |cell: &String| cell.replace('|', "\\|");
        let heads = self.columns.iter().map(|(head, _)| escaped(head)).collect();
        let rules = self.columns.iter().map(|(_, align)| match align {
            Align::Left => "---".to_string(),
            Align::Right => "---:".to_string(),
        });
        let mut text = line(heads) + &line(rules.collect());
        for row in &self.rows {
            let cells = (0..self.columns.len()).map(|column| row.get(column).map(escaped).unwrap_or_default());
            text += &line(cells.collect());
        }
        text
    }

    /// The lines, each ended by a line feed.
    pub fn text(&self) -> String {
        self.lines().into_iter().map(|line| line + "\n").collect()
    }
}

/// Cells that a text takes: its characters, without ANSI escape sequences. The texts here hold no
/// wide or combining characters.
fn width(text: &str) -> usize {
    let mut count = 0;
    let mut escape = false;
    for character in text.chars() {
        match (escape, character) {
            (false, '\u{1b}') => escape = true,
            (false, _) => count += 1,
            (true, 'm') => escape = false,
            (true, _) => {}
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new([("name", Align::Left), ("", Align::Left), ("value", Align::Right)]);
        table.row(["merge", "", "1"]);
        table.row(["\u{1b}[1mfast\u{1b}[0m", "", "123.45"]);
        table.row(["short"]);
        assert_eq!(table.text(), "name    value\nmerge       1\n\u{1b}[1mfast\u{1b}[0m   123.45\nshort\n");
    }

    #[test]
    fn a_table_without_heads_has_no_head_line() {
        let mut table = Table::new([("", Align::Left)]);
        table.row(["a"]);
        assert_eq!(table.lines(), ["a"]);
    }
}

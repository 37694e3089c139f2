//! A page of results: plain data, which says what is shown and nothing of how. [`crate::html`]
//! makes a file of it.

mod by_workload;
mod changes;
mod claims;
mod of_records;
mod over_time;
mod quantity;

pub use changes::changes;
pub use claims::claims;
pub use of_records::page;

/// A page.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page {
    /// Its title: one line.
    pub title: String,
    /// The first paragraphs: the result, then what it rests on.
    pub lead: Vec<String>,
    /// Its sections, in the order in which they are read.
    pub sections: Vec<Section>,
    /// The records or claims that the page was made from, as JSON; the page carries them.
    pub data: String,
}

/// A part of a page under a heading.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Section {
    /// Its heading.
    pub title: String,
    /// What it shows, in order.
    pub items: Vec<Item>,
}

/// A thing that a section shows.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// A table that is shown as such.
    Table(Table),
    /// Bars from zero, each with its spread.
    Bars(Bars),
    /// Points joined by straight lines.
    Line(Curves),
    /// Values that hold until the next one.
    Step(Curves),
    /// Bars made of parts.
    Stacked(Stacked),
    /// A matrix whose cells are shaded by their value.
    Heat(Heat),
    /// For each x the share of events whose value is at most x; y is a share from 0 to 1.
    Cdf(Curves),
    /// A paragraph.
    Note(String),
    /// Lines that are shown as they are, folded away under a title.
    Text(String, String),
}

/// What a number counts, which decides how it is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Quantity {
    /// A pure number, or one whose unit the label says.
    #[default]
    Number,
    /// Nanoseconds, written in ns, µs, ms or s.
    Nanoseconds,
    /// A part of a whole, written in percent.
    Share,
    /// Many bytes, written in units of powers of ten with two digits.
    Bytes,
    /// Many seconds, written in minutes, hours, days or years with two digits.
    LongSeconds,
}

/// A table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Title of the table: what it shows.
    pub title: String,
    /// The heads of its columns; those of numbers stand to the right.
    pub columns: Vec<Column>,
    /// Its rows; cells that are missing are shown empty.
    pub rows: Vec<Vec<Cell>>,
}

/// A column of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Column {
    /// Its head, with the unit.
    pub head: String,
    /// Whether it holds numbers.
    pub is_number: bool,
}

/// A cell of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cell {
    /// What is shown.
    pub text: String,
    /// The number by which the row is sorted, where it is one.
    pub number: Option<f64>,
    /// Whether it stands out: the best of its column.
    pub is_best: bool,
}

/// Bars from zero.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bars {
    /// Title of the bars: what they show.
    pub title: String,
    /// The unit of their values.
    pub unit: String,
    /// The bars from top to bottom.
    pub bars: Vec<Bar>,
}

/// A bar.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bar {
    /// Label of the bar.
    pub label: String,
    /// Its length.
    pub value: f64,
    /// The range in which the value is believed to be, where it is known.
    pub range: Option<(f64, f64)>,
    /// Whether it is marked as the best.
    pub is_best: bool,
}

/// An axis of curves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Axis {
    /// What the axis shows, with the unit.
    pub label: String,
    /// How its numbers are written.
    pub quantity: Quantity,
    /// Whether equal distances are equal ratios; values that are not above zero are left out then.
    pub is_log: bool,
    /// Names of the values 0, 1, 2 ..., where the axis has names instead of numbers.
    pub names: Vec<String>,
}

/// Curves over common axes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curves {
    /// Title of the plot: what the curves show.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The curves, at least one.
    pub curves: Vec<Curve>,
}

/// A curve.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curve {
    /// Label of the curve.
    pub label: String,
    /// Its points, x ascending.
    pub points: Vec<(f64, f64)>,
}

/// Bars made of parts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stacked {
    /// Title of the bars: what they show.
    pub title: String,
    /// The unit of their values.
    pub unit: String,
    /// The names of the parts, in the order in which they are put on one another.
    pub parts: Vec<String>,
    /// The label of each bar and the values of its parts; bars from top to bottom.
    pub bars: Vec<(String, Vec<f64>)>,
}

/// A matrix of values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Heat {
    /// Title of the matrix: what it shows.
    pub title: String,
    /// How its values are written.
    pub quantity: Quantity,
    /// Whether a cell is shaded by the largest value of its row, not of the whole matrix.
    pub by_row: bool,
    /// The labels of its columns.
    pub columns: Vec<String>,
    /// The label of each row and its values; `None` for a missing value.
    pub rows: Vec<(String, Vec<Option<f64>>)>,
}

impl Column {
    /// A column of texts.
    pub fn text(head: impl Into<String>) -> Self {
        Self { head: head.into(), is_number: false }
    }

    /// A column of numbers.
    pub fn number(head: impl Into<String>) -> Self {
        Self { head: head.into(), is_number: true }
    }
}

impl Cell {
    /// A text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// A number, written as this quantity is; a dash for `None`.
    pub fn number(value: Option<f64>, quantity: Quantity) -> Self {
        let value = value.filter(|value| value.is_finite());
        let text = value.map_or_else(|| "-".to_string(), |value| quantity.text(value));
        Self { text, number: value, is_best: false }
    }
}

impl Axis {
    /// The name of a value, where the axis has names.
    pub fn name(&self, value: f64) -> Option<&str> {
        let at = (value >= 0.0 && value.fract() == 0.0).then_some(value as usize)?;
        self.names.get(at).map(String::as_str)
    }

    fn cell(&self, value: f64) -> Cell {
        let cell = Cell::number(Some(value), self.quantity);
        match self.name(value) {
            Some(name) => Cell { text: name.to_string(), ..cell },
            None => cell,
        }
    }
}

impl Item {
    /// The title of a plot; `None` for a table, a note or a text.
    pub fn plot_title(&self) -> Option<&str> {
        match self {
            Self::Bars(bars) => Some(&bars.title),
            Self::Line(curves) | Self::Step(curves) | Self::Cdf(curves) => Some(&curves.title),
            Self::Stacked(stacked) => Some(&stacked.title),
            Self::Heat(heat) => Some(&heat.title),
            Self::Table(_) | Self::Note(_) | Self::Text(..) => None,
        }
    }

    /// The values of a plot as a table; `None` for a table, a note or a text.
    pub fn data(&self) -> Option<Table> {
        let title = self.plot_title()?.to_string();
        let number = |value: f64| Cell::number(Some(value), Quantity::Number);
        let (columns, rows) = match self {
            Self::Bars(bars) => {
                let columns = [Column::text(""), Column::number(with_unit("value", &bars.unit))];
                let ends = ["least", "most"].map(Column::number);
                let is_ranged = bars.bars.iter().any(|bar| bar.range.is_some());
                let row = |bar: &Bar| {
                    let mut row = vec![Cell::text(&bar.label), Cell { is_best: bar.is_best, ..number(bar.value) }];
                    if is_ranged {
                        let ends = [bar.range.map(|range| range.0), bar.range.map(|range| range.1)];
                        row.extend(ends.map(|end| Cell::number(end, Quantity::Number)));
                    }
                    row
                };
                let ends = ends.into_iter().filter(|_| is_ranged);
                (columns.into_iter().chain(ends).collect(), bars.bars.iter().map(row).collect())
            }
            Self::Line(curves) | Self::Step(curves) | Self::Cdf(curves) => {
                let columns = vec![Column::text(""), Column::number(&curves.x.label), Column::number(&curves.y.label)];
                let row = |label: &str, (x, y): (f64, f64)| {
                    let x = curves.x.cell(x);
                    vec![Cell::text(label), x, curves.y.cell(y)]
                };
                let rows = curves.curves.iter();
                let rows = rows.flat_map(|curve| curve.points.iter().map(|point| row(&curve.label, *point)));
                (columns, rows.collect())
            }
            Self::Stacked(stacked) => {
                let heads = stacked.parts.iter().map(|part| Column::number(with_unit(part, &stacked.unit)));
                let sum = Column::number(with_unit("together", &stacked.unit));
                let row = |(label, values): &(String, Vec<f64>)| {
                    let sum = number(values.iter().sum());
                    let values = values.iter().map(|value| number(*value));
                    std::iter::once(Cell::text(label)).chain(values).chain([sum]).collect()
                };
                let columns = std::iter::once(Column::text("")).chain(heads).chain([sum]).collect();
                (columns, stacked.bars.iter().map(row).collect())
            }
            Self::Heat(heat) => {
                let heads = heat.columns.iter().map(Column::number);
                let row = |(label, values): &(String, Vec<Option<f64>>)| {
                    let values = values.iter().map(|value| Cell::number(*value, heat.quantity));
                    std::iter::once(Cell::text(label)).chain(values).collect()
                };
                let columns = std::iter::once(Column::text("")).chain(heads).collect();
                (columns, heat.rows.iter().map(row).collect())
            }
            Self::Table(_) | Self::Note(_) | Self::Text(..) => return None,
        };
        Some(Table { title, columns, rows })
    }
}

fn with_unit(name: &str, unit: &str) -> String {
    if unit.is_empty() { name.to_string() } else { format!("{name} [{unit}]") }
}

//! A page as one file of HTML. It loads nothing from elsewhere: its content security policy allows
//! its own style and script, by their hashes, and nothing else. It carries the data that it was
//! made from. The same page gives the same bytes. It is well-formed as XML, too, so that any XML
//! parser can read it.

mod palette;

use std::fmt::Write;

use sha2::{Digest, Sha256};

use crate::page::{Cell, Item, Page, Section, Table};
use crate::svg::{WIDTHS, escaped, plot};

const SCRIPT: &str = include_str!("sort.js");
const STYLE: &str = include_str!("style.css");

/// The `id` of the element that holds what the page was made from.
pub const DATA_ID: &str = "data";

/// The page as the text of an HTML file.
pub fn html(page: &Page) -> String {
    let style = palette::rules() + STYLE;
    let policy = format!(
        "default-src 'none'; style-src '{}'; script-src '{}'; base-uri 'none'; form-action 'none'",
        hash(&style),
        hash(SCRIPT)
    );
    let title = escaped(&page.title);
    let mut text = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <meta name=\"color-scheme\" content=\"light dark\"/>\n\
         <title>{title}</title>\n<style>{style}</style>\n</head>\n<body>\n<header>\n<h1>{title}</h1>\n"
    );
    for paragraph in &page.lead {
        push(&mut text, format_args!("<p>{}</p>\n", escaped(paragraph)));
    }
    if page.sections.len() > 1 {
        text.push_str("<nav aria-label=\"Sections\"><ul>\n");
        for (at, section) in page.sections.iter().enumerate() {
            push(&mut text, format_args!("<li><a href=\"#s{at}\">{}</a></li>\n", escaped(&section.title)));
        }
        text.push_str("</ul></nav>\n");
    }
    text.push_str("</header>\n<main>\n");
    for (at, section) in page.sections.iter().enumerate() {
        put_section(&mut text, section, at);
    }
    push(
        &mut text,
        format_args!(
            "</main>\n<footer>\n<p>Made by nandkit. This file holds all it shows, and what it was made from as JSON \
             (in the element <code>#{DATA_ID}</code>).</p>\n</footer>\n\
             <script type=\"application/json\" id=\"{DATA_ID}\">{}</script>\n<script>{SCRIPT}</script>\n</body>\n</html>\n",
            in_script(&page.data)
        ),
    );
    text
}

fn push(text: &mut String, what: std::fmt::Arguments<'_>) {
    // Writing to a text does not fail.
    let _ = text.write_fmt(what);
}

/// The hash of a source as a content security policy names it.
fn hash(source: &str) -> String {
    format!("sha256-{}", base64(&Sha256::digest(source.as_bytes())))
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let value = (0..3).fold(0_u32, |value, at| value << 8 | u32::from(three.get(at).copied().unwrap_or(0)));
        for at in 0..4 {
            let digit = DIGITS.get((value >> (18 - 6 * at)) as usize & 63).copied().unwrap_or(b'=');
            text.push(if at <= three.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

/// JSON with every character escaped that could end the element around it, or that XML cannot hold.
fn in_script(json: &str) -> String {
    let mut safe = String::with_capacity(json.len());
    for character in json.chars() {
        match character {
            '<'
            | '>'
            | '&'
            | '\u{61c}'
            | '\u{200e}'
            | '\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}'
            | '\u{fffe}'
            | '\u{ffff}'
            | '\u{7f}'..='\u{9f}' => {
                push(&mut safe, format_args!("\\u{:04x}", u32::from(character)));
            }
            _ => safe.push(character),
        }
    }
    safe
}

fn put_section(text: &mut String, section: &Section, at: usize) {
    push(
        text,
        format_args!(
            "<section id=\"s{at}\" aria-labelledby=\"s{at}-h\">\n<h2 id=\"s{at}-h\">{}</h2>\n<div class=\"items\">\n",
            escaped(&section.title)
        ),
    );
    for (number, item) in section.items.iter().enumerate() {
        match item {
            Item::Note(note) => push(text, format_args!("<p class=\"wide\">{}</p>\n", escaped(note))),
            Item::Table(table) => {
                text.push_str("<div class=\"wide\">\n");
                put_table(text, table, true);
                text.push_str("</div>\n");
            }
            Item::Text(title, lines) => push(
                text,
                format_args!(
                    "<details class=\"wide\"><summary>{}</summary>\n\
                     <div class=\"box\" tabindex=\"0\" role=\"group\" aria-label=\"{0}\"><pre>{}</pre></div></details>\n",
                    escaped(title),
                    escaped(lines)
                ),
            ),
            _ => put_plot(text, item, &format!("s{at}-{number}")),
        }
    }
    text.push_str("</div>\n</section>\n");
}

fn put_plot(text: &mut String, item: &Item, id: &str) {
    let title = escaped(item.plot_title().unwrap_or_default());
    let is_matrix = matches!(item, Item::Heat(_));
    let class = if is_matrix { "wide" } else { "plot" };
    push(text, format_args!("<figure class=\"{class}\">\n<figcaption>{title}</figcaption>\n"));
    for (width, class) in WIDTHS.into_iter().zip(["narrow", "full"]) {
        let drawing = plot(item, &format!("{id}{class}"), width).unwrap_or_default();
        let drawing = drawing.trim_end();
        // A matrix is as wide as its columns need.
        let attributes = if is_matrix {
            format!(" box\" tabindex=\"0\" role=\"group\" aria-label=\"{title}")
        } else {
            String::new()
        };
        push(text, format_args!("<div class=\"{class}{attributes}\">{drawing}</div>\n"));
    }
    if let Some(table) = item.data() {
        text.push_str("<details><summary>The figures of this plot</summary>\n");
        put_table(text, &table, false);
        text.push_str("</details>\n");
    }
    text.push_str("</figure>\n");
}

/// A table in a box of its own, which scrolls where it is wider than the page.
fn put_table(text: &mut String, table: &Table, has_heading: bool) {
    let title = escaped(&table.title);
    if has_heading {
        push(text, format_args!("<h3>{title}</h3>\n"));
    }
    push(
        text,
        format_args!(
            "<div class=\"box\" tabindex=\"0\" role=\"group\" aria-label=\"{title}\">\n<table aria-label=\"{title}\">\n"
        ),
    );
    text.push_str("<thead><tr>");
    for column in &table.columns {
        let class = if column.is_number { " class=\"n\"" } else { "" };
        match column.head.as_str() {
            // An empty head is not a heading: a plain cell takes its place.
            "" => push(text, format_args!("<td{class}></td>")),
            head => push(text, format_args!("<th scope=\"col\"{class}>{}</th>", escaped(head))),
        }
    }
    text.push_str("</tr></thead>\n<tbody>\n");
    let empty = Cell::default();
    for row in &table.rows {
        text.push_str("<tr>");
        for (at, column) in table.columns.iter().enumerate() {
            put_cell(text, row.get(at).unwrap_or(&empty), at == 0, column.is_number);
        }
        text.push_str("</tr>\n");
    }
    text.push_str("</tbody>\n</table>\n</div>\n");
}

fn put_cell(text: &mut String, cell: &Cell, is_head: bool, is_number: bool) {
    let (open, close) = if is_head { ("th scope=\"row\"", "th") } else { ("td", "td") };
    let classes: Vec<&str> =
        [(is_number, "n"), (cell.is_best, "best")].iter().filter(|(is, _)| *is).map(|(_, class)| *class).collect();
    let class = if classes.is_empty() { String::new() } else { format!(" class=\"{}\"", classes.join(" ")) };
    let number = cell.number.filter(|number| number.is_finite());
    let number = number.map_or_else(String::new, |number| format!(" data-v=\"{number}\""));
    push(text, format_args!("<{open}{class}{number}>{}</{close}>", escaped(&cell.text)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::{Bars, Column};
    use crate::testing::well_formed;

    /// A page with this text wherever it can stand.
    fn page(text: &str) -> Page {
        let text = || text.to_string();
        let cell = Cell { text: text(), number: Some(1.5), is_best: true };
        let columns = vec![Column::text(text()), Column::number(text())];
        let table = Table { title: text(), columns, rows: vec![vec![cell], vec![]] };
        let bars = Bars { title: text(), unit: text(), bars: vec![Default::default()] };
        let items = vec![Item::Table(table), Item::Bars(bars), Item::Note(text()), Item::Text(text(), text())];
        let section = Section { title: text(), items };
        let data = serde_json::json!({ "name": text() }).to_string();
        Page { title: text(), lead: vec![text()], sections: vec![section.clone(), section], data }
    }

    #[test]
    fn a_hostile_name_is_a_text_wherever_it_stands() {
        for hostile in [
            "</script><script>alert(1)</script>",
            "\"><img src=x onerror=alert(1)>",
            "</style></title></svg></pre></details>",
            "<!--",
            "]]>",
            "' onmouseover='alert(1)",
            "&lt;\u{202e}\u{0}\u{85}\u{ffff}",
        ] {
            let text = html(&page(hostile));
            well_formed(&text).unwrap_or_else(|error| panic!("{hostile}: {error}\n{text}"));
            let plain = html(&page("plain"));
            // As many elements as with a name that does no harm.
            assert_eq!(text.matches('<').count(), plain.matches('<').count(), "{hostile}");
            assert!(!text.contains(['\u{202e}', '\u{0}', '\u{85}', '\u{ffff}']), "{hostile}");
        }
    }

    #[test]
    fn the_data_come_back_as_they_were() {
        let page = page("</script> & \u{2028}\u{202e}ä");
        let text = html(&page);
        let (_, rest) = text.split_once("id=\"data\">").unwrap();
        let (data, _) = rest.split_once("</script>").unwrap();
        let read: serde_json::Value = serde_json::from_str(data).unwrap();
        assert_eq!(read, serde_json::from_str::<serde_json::Value>(&page.data).unwrap());
    }

    #[test]
    fn a_page_asks_for_nothing_from_anywhere() {
        let text = html(&page("plain"));
        assert!(!text.replace("http-equiv", "").contains("http"), "{text}");
        for asks in ["src=", "url(", "@import", "<link", "<img", "<iframe", "style=\"", "onclick"] {
            assert!(!text.contains(asks), "{asks}");
        }
        assert_eq!(html(&page("plain")), text);
    }

    #[test]
    fn the_policy_names_the_hashes_of_what_stands_there() {
        let text = html(&page("plain"));
        for element in ["style", "script"] {
            let (_, rest) = text.split_once(&format!("<{element}>")).unwrap();
            let (source, _) = rest.split_once(&format!("</{element}>")).unwrap();
            let expected = format!("{element}-src 'sha256-{}'", base64(&Sha256::digest(source.as_bytes())));
            assert!(text.contains(&expected), "{expected}");
        }
        // RFC 4648, section 10.
        for (bytes, expected) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")] {
            assert_eq!(base64(bytes.as_bytes()), expected);
        }
    }

    #[test]
    fn the_script_is_short() {
        assert!(SCRIPT.lines().count() <= 40);
        // As text of XML, too, it says what it says.
        assert!(!SCRIPT.contains(['<', '&']) && !STYLE.contains(['<', '&']));
    }
}

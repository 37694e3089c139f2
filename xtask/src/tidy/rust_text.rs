//! Rust source with comments, literals and test modules blanked out, so that rules look at code
//! alone.

use std::ops::Range;

/// The source with every character of comments and literals replaced by a space; lines stay where
/// they are.
pub fn code(source: &str) -> String {
    blanked_where(source, |_| true)
}

/// The source with every character of comments replaced by a space, literals kept; lines stay where
/// they are.
pub fn without_comments(source: &str) -> String {
    blanked_where(source, |text| text.starts_with(&['/']))
}

/// [`without_comments`], and without literals that have a space in them: sentences for people.
pub fn without_sentences(source: &str) -> String {
    blanked_where(source, |text| text.starts_with(&['/']) || text.contains(&' '))
}

/// The source with those comments and literals blanked out that are chosen.
fn blanked_where(source: &str, chosen: impl Fn(&[char]) -> bool) -> String {
    let text: Vec<char> = source.chars().collect();
    let mut out = String::with_capacity(source.len());
    let mut at = 0;
    while at < text.len() {
        let end = literal_or_comment_end(&text, at);
        if end > at && !chosen(&text[at..end]) {
            out.extend(&text[at..end]);
            at = end;
        } else if end > at {
            out.extend(text[at..end].iter().map(|c| if *c == '\n' { '\n' } else { ' ' }));
            at = end;
        } else {
            // A whole word at once, so that the r of `for"` is not taken for the start of a raw
            // string.
            let word = text[at..].iter().take_while(|c| is_word(**c)).count().max(1);
            out.extend(&text[at..at + word]);
            at += word;
        }
    }
    out
}

/// How an item begins that only tests see.
const TEST_MARKERS: [&str; 2] = ["#[cfg(test)]", "#[cfg(all(test,"];

/// [`code`] without the items that only tests see.
pub fn code_without_tests(source: &str) -> String {
    let code = code(source);
    blanked(&code, &test_items(&code))
}

/// The source without the items that only tests see, comments and literals kept.
pub fn source_without_tests(source: &str) -> String {
    blanked(source, &test_items(&code(source)))
}

/// The code without constants that have no name: what they assert fails at compile time.
pub fn without_constant_checks(code: &str) -> String {
    blanked(code, &items(code, "const _: "))
}

fn test_items(code: &str) -> Vec<Range<usize>> {
    TEST_MARKERS.iter().flat_map(|marker| items(code, marker)).collect()
}

/// Where, counted in characters, the items of the code are that start with `marker`, or are marked
/// with it.
fn items(code: &str, marker: &str) -> Vec<Range<usize>> {
    let code: Vec<char> = code.chars().collect();
    let marker: Vec<char> = marker.chars().collect();
    let (mut found, mut at) = (Vec::new(), 0);
    while at + marker.len() <= code.len() {
        if code[at..at + marker.len()] == marker[..] {
            let end = item_end(&code, at + marker.len());
            found.push(at..end);
            at = end;
        } else {
            at += 1;
        }
    }
    found
}

/// The text with all characters of these ranges replaced by spaces; lines stay where they are.
fn blanked(text: &str, ranges: &[Range<usize>]) -> String {
    let mut text: Vec<char> = text.chars().collect();
    for range in ranges {
        for c in &mut text[range.clone()] {
            if *c != '\n' {
                *c = ' ';
            }
        }
    }
    text.into_iter().collect()
}

/// The names of the modules that only tests see and that stand in files of their own.
pub fn test_modules(source: &str) -> Vec<String> {
    let code = code(source);
    let declarations = TEST_MARKERS.iter().flat_map(|marker| code.split(marker).skip(1));
    declarations
        .filter_map(|rest| {
            let (declaration, _) = rest.split_once(';')?;
            // Behind the rest of the attribute, and further ones.
            let declaration = declaration.rsplit(']').next()?;
            let name = declaration.trim().trim_start_matches("pub").trim().strip_prefix("mod ")?;
            name.chars().all(is_word).then(|| name.to_owned())
        })
        .collect()
}

/// The functions of the code: name, first line (from 1 on) and number of lines.
pub fn functions(source: &str) -> Vec<(String, usize, usize)> {
    let code: Vec<char> = code(source).chars().collect();
    let mut functions = Vec::new();
    let mut line = 1;
    for at in 0..code.len() {
        line += usize::from(code[at] == '\n');
        let starts = code[at..].starts_with(&['f', 'n', ' ']) && (at == 0 || !is_word(code[at - 1]));
        if !starts {
            continue;
        }
        let name: String = code[at + 3..].iter().take_while(|c| is_word(**c)).collect();
        let end = item_end(&code, at);
        let has_body = end > at && code[end - 1] == '}';
        if has_body && !name.is_empty() {
            functions.push((name, line, 1 + code[at..end].iter().filter(|c| **c == '\n').count()));
        }
    }
    functions
}

/// Just behind the item that starts at or after `from`: its closing brace, or its semicolon outside
/// all brackets.
fn item_end(code: &[char], from: usize) -> usize {
    let mut depth = 0_usize;
    for (at, c) in code.iter().enumerate().skip(from) {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' => depth = depth.saturating_sub(1),
            '}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at + 1;
                }
            }
            ';' if depth == 0 => return at + 1,
            _ => {}
        }
    }
    code.len()
}

/// The end of the comment or literal that starts at `at`; `at` itself where none does.
fn literal_or_comment_end(text: &[char], at: usize) -> usize {
    let rest = &text[at..];
    match rest {
        ['/', '/', ..] => at + rest.iter().take_while(|c| **c != '\n').count(),
        ['/', '*', ..] => at + block_comment_length(rest),
        ['"', ..] => at + quoted_length(rest, '"'),
        ['b' | 'c', '"', ..] => at + 1 + quoted_length(&rest[1..], '"'),
        ['b', '\'', ..] => at + 1 + quoted_length(&rest[1..], '\''),
        ['r', '"' | '#', ..] => at + raw_length(rest, 1),
        ['b' | 'c', 'r', '"' | '#', ..] => at + raw_length(rest, 2),
        // A character, not a lifetime: 'x' or '\...'.
        ['\'', '\\', ..] | ['\'', _, '\'', ..] => at + quoted_length(rest, '\''),
        _ => at,
    }
}

fn block_comment_length(rest: &[char]) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < rest.len() {
        match &rest[at..] {
            ['/', '*', ..] => (depth, at) = (depth + 1, at + 2),
            ['*', '/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

/// The length of a literal that starts and ends with `quote`, backslashes heeded.
fn quoted_length(rest: &[char], quote: char) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != quote {
        at += if rest[at] == '\\' { 2 } else { 1 };
    }
    (at + 1).min(rest.len())
}

/// The length of a raw string whose prefix takes `prefix` characters; 0 where it is a raw
/// identifier such as `r#type`.
fn raw_length(rest: &[char], prefix: usize) -> usize {
    let hashes = rest[prefix..].iter().take_while(|c| **c == '#').count();
    let mut at = prefix + hashes;
    if rest.get(at) != Some(&'"') {
        return 0;
    }
    at += 1;
    while at < rest.len() {
        let closes = rest[at] == '"' && rest[at + 1..].iter().take(hashes).filter(|c| **c == '#').count() == hashes;
        at += 1;
        if closes {
            return at + hashes;
        }
    }
    at
}

/// Whether the character can stand in an identifier.
pub fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blanked() {
        for source in [
            "// unsafe",
            "/* a /* unsafe */ unsafe */",
            "\"unsafe \\\" unsafe\"",
            "r#\"unsafe \" unsafe\"#",
            "br\"unsafe\"",
            "b\"unsafe\"",
            "'\\'' /* unsafe */",
            "b'\"' // unsafe",
            "'\"' // unsafe",
        ] {
            assert!(!code(source).contains("unsafe"), "{source}");
            assert_eq!(code(source).chars().count(), source.chars().count(), "{source}");
        }
    }

    #[test]
    fn code_stays() {
        for source in ["fn f<'a>(x: &'a str) { unsafe }", "r#type; unsafe", "'static unsafe", "for\"\"; unsafe"] {
            assert!(code(source).contains("unsafe"), "{source}");
        }
        assert_eq!(code("a // b\nc"), "a     \nc");
    }

    #[test]
    fn test_items_are_blanked_and_their_files_named() {
        let source = "fn a() { one }\n#[cfg(test)]\n#[allow(x)]\nmod tests { fn b() { two } }\nfn c() { three }";
        let code = code_without_tests(source);
        assert!(code.contains("one") && code.contains("three") && !code.contains("two"));
        let other = "#[cfg(all(test, unix))]\nmod tests { two }\nfn c() { three }";
        assert!(!code_without_tests(other).contains("two") && code_without_tests(other).contains("three"));
        assert_eq!(test_modules("#[cfg(all(test, unix))]\nmod one;\n#[cfg(test)]\n#[allow(x)]\nmod two;").len(), 2);
        assert_eq!(test_modules("#[cfg(test)]\nmod tests;\n#[cfg(test)] mod here { }\nmod other;"), ["tests"]);
        assert!(!code_without_tests("#[cfg(test)]\nmod tests;\nfn a() {}").contains("mod tests"));
    }

    #[test]
    fn the_source_without_tests_keeps_its_literals() {
        let source = "fn a() { \"one\" } // é\n#[cfg(test)]\nmod tests { \"two\" }\n// three\n";
        let kept = source_without_tests(source);
        assert!(kept.contains("\"one\"") && kept.contains("three") && !kept.contains("two"), "{kept}");
    }

    #[test]
    fn comments_alone_are_blanked() {
        let kept = without_comments("f(\"// one\"); // two\n/* three */ g('\"', \"four\")");
        assert!(kept.contains("// one") && kept.contains("four"), "{kept}");
        assert!(!kept.contains("two") && !kept.contains("three"), "{kept}");
    }

    #[test]
    fn constant_checks_are_blanked() {
        for source in
            ["const _: () = assert!(one);\nfn two() {}", "const _: () = {\n    assert!(one);\n};\nfn two() {}"]
        {
            let code = without_constant_checks(source);
            assert!(!code.contains("assert!") && code.contains("two"), "{code}");
        }
    }

    #[test]
    fn functions_are_measured() {
        let source = "fn a() {\n  x\n}\ntrait T {\n  fn b(&self, y: [u8; 2]);\n  fn c() { 1 }\n}\n";
        let expected = [("a".to_owned(), 1, 3), ("c".to_owned(), 6, 1)];
        assert_eq!(functions(source), expected);
    }

    #[test]
    fn unfinished_source_ends() {
        for source in ["/* a", "\"a", "r#\"a", "'\\", "b'", "#[cfg(test)]", "fn a() {"] {
            code_without_tests(source);
            functions(source);
        }
    }
}

//! Rust source with comments, literals and test modules blanked out, so that rules look at code alone.

/// The source with every character of comments and literals replaced by a space; lines stay where they are.
pub fn code(source: &str) -> String {
    let text: Vec<char> = source.chars().collect();
    let mut out = String::with_capacity(source.len());
    let mut at = 0;
    while at < text.len() {
        let end = literal_or_comment_end(&text, at);
        if end > at {
            out.extend(text[at..end].iter().map(|c| if *c == '\n' { '\n' } else { ' ' }));
            at = end;
        } else {
            // A whole word at once, so that the r of `for"` is not taken for the start of a raw string.
            let word = text[at..].iter().take_while(|c| is_word(**c)).count().max(1);
            out.extend(&text[at..at + word]);
            at += word;
        }
    }
    out
}

/// [`code`] without the items under `#[cfg(test)]`.
pub fn code_without_tests(source: &str) -> String {
    without_items(&code(source), "#[cfg(test)]")
}

/// The code without constants that have no name: what they assert fails at compile time.
pub fn without_constant_checks(code: &str) -> String {
    without_items(code, "const _: ")
}

/// The code with every item blanked that starts with `marker`, or is marked with it.
fn without_items(code: &str, marker: &str) -> String {
    let mut code: Vec<char> = code.chars().collect();
    let marker: Vec<char> = marker.chars().collect();
    let mut at = 0;
    while at + marker.len() <= code.len() {
        if code[at..at + marker.len()] != marker[..] {
            at += 1;
            continue;
        }
        let end = item_end(&code, at + marker.len());
        for c in &mut code[at..end] {
            if *c != '\n' {
                *c = ' ';
            }
        }
        at = end;
    }
    code.into_iter().collect()
}

/// The names of the modules that stand under `#[cfg(test)]` in files of their own.
pub fn test_modules(source: &str) -> Vec<String> {
    let code = code(source);
    let declarations = code.split("#[cfg(test)]").skip(1);
    declarations
        .filter_map(|rest| {
            let (declaration, _) = rest.split_once(';')?;
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

/// Just behind the item that starts at or after `from`: its closing brace, or its semicolon outside all brackets.
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

/// The length of a raw string whose prefix takes `prefix` characters; 0 where it is a raw identifier such as `r#type`.
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
        assert_eq!(test_modules("#[cfg(test)]\nmod tests;\n#[cfg(test)] mod here { }\nmod other;"), ["tests"]);
        assert!(!code_without_tests("#[cfg(test)]\nmod tests;\nfn a() {}").contains("mod tests"));
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

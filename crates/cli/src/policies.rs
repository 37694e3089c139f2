//! `nandkit policies`

use nandkit_cleaning::victim::{self, OptionInfo};
use nandkit_cleaning::{search, separation};
use nandkit_report::{Align, Table};
use nandkit_stack::PolicyName;
use serde_json::json;

use crate::args::PoliciesArguments;
use crate::failure::Failure;
use crate::output;

/// A policy: its kind, name, description and options.
struct Entry {
    kind: &'static str,
    name: &'static str,
    text: &'static str,
    options: Vec<(&'static str, &'static str)>,
}

const RECYCLING: &str = "recycling";
const VICTIM: &str = "victim";
const SEPARATION: &str = "separation";

fn entries() -> Vec<Entry> {
    let pairs = |options: &[OptionInfo]| options.iter().map(|option| (option.name, option.about)).collect();
    let recycling = PolicyName::ALL.into_iter().map(|policy| {
        let (name, text) = (policy.name(), policy.text());
        Entry { kind: RECYCLING, name, text, options: Vec::new() }
    });
    let search = Entry { kind: VICTIM, name: search::NAME, text: search::ABOUT, options: Vec::new() };
    let victims = victim::names().filter_map(victim::rule).map(|rule| {
        let options = victim::options(rule).map(|option| (option.name, option.about)).collect();
        Entry { kind: VICTIM, name: rule.name(), text: rule.about(), options }
    });
    let schemes = separation::names().filter_map(separation::info).map(|scheme| {
        let options = pairs(scheme.options);
        Entry { kind: SEPARATION, name: scheme.name, text: scheme.about, options }
    });
    recycling.chain(victims).chain([search]).chain(schemes).collect()
}

/// Lists the policies of recycling, victim selection and data separation.
pub fn policies(arguments: &PoliciesArguments) -> Result<(), Failure> {
    let entries = entries();
    if arguments.json {
        let list: Vec<_> = entries
            .iter()
            .map(|entry| {
                let options: serde_json::Map<_, _> =
                    entry.options.iter().map(|(name, about)| ((*name).to_owned(), json!(about))).collect();
                json!({"kind": entry.kind, "name": entry.name, "text": entry.text, "options": options})
            })
            .collect();
        return output::json(&list.into());
    }
    let mut text = String::new();
    for (kind, title, where_) in [
        (RECYCLING, "policy", "what happens to a full log block (block-map: --policy, or policy in [stack.ftl])"),
        (
            VICTIM,
            "victim",
            "which block is cleaned next (page-map: victim in [stack.ftl]; JFFS2: in [stack.fs]; F2FS, which section: victim and background_victim in [stack.fs])",
        ),
        (
            SEPARATION,
            "separation",
            "which data is written to separate blocks (page-map: separation in [stack.ftl]; JFFS2: in [stack.fs])",
        ),
    ] {
        let mut table = Table::new([(title, Align::Left), (where_, Align::Left), ("options", Align::Left)]);
        for entry in entries.iter().filter(|entry| entry.kind == kind) {
            let options: Vec<&str> = entry.options.iter().map(|(name, _)| *name).collect();
            table.row([entry.name, entry.text, &options.join(", ")]);
        }
        if !text.is_empty() {
            text.push('\n');
        }
        text += &table.text();
    }
    text += "\nOptions follow the name: victim = \"d-choices:d=5\"; --json lists the options of each policy\n";
    output::text(&text)
}

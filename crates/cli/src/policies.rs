//! `nandkit policies`

use nandkit_report::{Align, Table};
use nandkit_stack::PolicyName;
use serde_json::json;

use crate::args::PoliciesArguments;
use crate::failure::Failure;
use crate::output;

/// Lists the recycling policies.
pub fn policies(arguments: &PoliciesArguments) -> Result<(), Failure> {
    if arguments.json {
        let list = PolicyName::ALL.map(|policy| json!({"name": policy.name(), "text": policy.text()}));
        return output::json(&list.as_slice().into());
    }
    let mut table = Table::new([("policy", Align::Left), ("what it does with a full log block", Align::Left)]);
    for policy in PolicyName::ALL {
        table.row([policy.name(), policy.text()]);
    }
    output::text(&table.text())
}

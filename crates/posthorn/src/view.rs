//! Answers of a service as tables.

use crate::output::printable;
use comfy_table::{Table, presets};
use serde_json::Value;

/// A column: its title, and the JSON pointer of its value in an item.
pub(crate) type Column = (&'static str, &'static str);

/// The items of a list as a table; a word where there are none.
pub(crate) fn items(list: &Value, columns: &[Column]) -> String {
    let items = of_list(list);
    if items.is_empty() {
        return "none".to_owned();
    }
    let mut table = plain();
    table.set_header(columns.iter().map(|(title, _)| *title));
    for item in items {
        table.add_row(columns.iter().map(|(_, pointer)| cell(item, pointer)));
    }
    table.trim_fmt()
}

/// The items of an answer that is a list, or of a bare array.
pub(crate) fn of_list(list: &Value) -> &[Value] {
    let items = list.get("items").unwrap_or(list);
    items.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// One thing: its fields, one a line; what is inside a field has a dotted name. Fields that
/// this version does not know are shown like any other.
pub(crate) fn record(value: &Value) -> String {
    let mut table = plain();
    rows(&mut table, "", value);
    table.trim_fmt()
}

fn rows(table: &mut Table, prefix: &str, value: &Value) {
    for (name, value) in value.as_object().into_iter().flatten() {
        let name = format!("{prefix}{}", printable(name));
        match value {
            Value::Object(inner) if !inner.is_empty() => rows(table, &format!("{name}."), value),
            _ => {
                table.add_row([name, text(value)]);
            }
        }
    }
}

/// How much of a list this is and how to see more, where there is more.
pub(crate) fn more(list: &Value) -> Option<String> {
    let cursor = list.get("next_cursor")?.as_str()?;
    let cursor = printable(cursor);
    if list.get("complete") == Some(&Value::Bool(false)) {
        return Some(format!("the search goes on: --cursor {cursor}"));
    }
    let number = |key: &str| list.get(key).and_then(Value::as_u64);
    match number("count").zip(number("total")) {
        Some((count, total)) => Some(format!("{count} of {total}; more: --cursor {cursor}")),
        None => Some(format!("more: --cursor {cursor}")),
    }
}

/// The text at `pointer`, empty where there is none.
pub(crate) fn cell(value: &Value, pointer: &str) -> String {
    value.pointer(pointer).map(text).unwrap_or_default()
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => printable(text),
        Value::Array(items) if items.iter().all(Value::is_string) => {
            let items: Vec<String> = items.iter().map(text).collect();
            items.join(" ")
        }
        other => printable(&other.to_string()),
    }
}

/// Without lines: what is shown can be cut and searched.
fn plain() -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_list_is_a_table_with_a_title_for_each_column() {
        let list = json!({"items": [
            {"id": "a", "state": {"name": "open"}, "types": ["x.*", "y"]},
            {"id": "b", "state": null},
        ]});
        let shown = items(
            &list,
            &[("ID", "/id"), ("STATE", "/state/name"), ("TYPES", "/types")],
        );
        let rows: Vec<Vec<&str>> = shown
            .lines()
            .map(|row| row.split_whitespace().collect())
            .collect();
        assert_eq!(rows[0], ["ID", "STATE", "TYPES"]);
        assert_eq!(rows[1], ["a", "open", "x.*", "y"]);
        assert_eq!(rows[2], ["b"]);
    }

    #[test]
    fn an_empty_list_says_so() {
        assert_eq!(items(&json!({"items": []}), &[("ID", "/id")]), "none");
    }

    #[test]
    fn a_record_shows_every_field_and_what_is_in_it() {
        let shown =
            record(&json!({"id": "x", "n": 3, "deep": {"a": [1], "b": {}, "c": {"d": "e"}}}));
        let rows: Vec<Vec<&str>> = shown
            .lines()
            .map(|row| row.split_whitespace().collect())
            .collect();
        let wanted = [
            ["deep.a", "[1]"],
            ["deep.b", "{}"],
            ["deep.c.d", "e"],
            ["id", "x"],
            ["n", "3"],
        ];
        assert_eq!(rows, wanted);
    }

    #[test]
    fn what_a_receiver_answered_cannot_steer_the_terminal() {
        let shown = record(&json!({"response_body": "\u{1b}[31mred"}));
        assert!(!shown.contains('\u{1b}'));
    }

    #[test]
    fn the_next_page_is_named() {
        assert_eq!(more(&json!({"next_cursor": null})), None);
        let next = more(&json!({"next_cursor": "MTI"}));
        assert_eq!(next.as_deref(), Some("more: --cursor MTI"));
        let of = more(&json!({"next_cursor": "MTI", "count": 50, "total": 1000}));
        assert_eq!(of.as_deref(), Some("50 of 1000; more: --cursor MTI"));
        let partial = more(&json!({"next_cursor": "MTI", "complete": false}));
        assert_eq!(partial.as_deref(), Some("the search goes on: --cursor MTI"));
    }
}

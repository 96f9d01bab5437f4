//! `diff`: a line for each key that differs.

use std::fmt::Write as _;

use serde_json::Value;

use super::clean;
use crate::config::draft::Difference;

/// `vserver "www": method: "static-proximity" -> "round-robin"`; nothing where nothing differs.
pub fn diff(value: &Value) -> String {
    let mut out = String::new();
    let file = clean(value["file"].as_str().unwrap_or_default());
    if value["changed_on_disk"] == true {
        let _ = writeln!(out, "# {file} was changed by somebody else since it was read");
    }
    let rows: Vec<Difference> = serde_json::from_value(value["differences"].clone()).unwrap_or_default();
    if rows.is_empty() {
        let _ = writeln!(out, "# {file} and the running configuration say the same");
    }
    for row in rows {
        let object = clean(&row.object);
        let or_default =
            |side: Option<String>| side.map_or_else(|| "(default)".to_owned(), |text| clean(&text));
        // Writing into a String cannot fail.
        let _ = match (row.field, row.file, row.running) {
            (Some(field), file, running) if field.is_empty() => {
                writeln!(out, "{object}: {} -> {}", or_default(file), or_default(running))
            }
            (Some(field), file, running) => {
                writeln!(out, "{object}: {}: {} -> {}", clean(&field), or_default(file), or_default(running))
            }
            (None, None, Some(running)) => writeln!(out, "{object}: added: {}", clean(&running)),
            (None, Some(_), None) => writeln!(out, "{object}: removed"),
            (None, ..) => Ok(()),
        };
    }
    out
}

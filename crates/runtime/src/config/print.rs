//! `--print-config`: the effective configuration as a file that could be read back.

use serde::Serialize;
use toml::{Table, Value};

/// `config` as flat TOML, keys sorted, unset ones left out. Groups that were not flattened by
/// serde are flattened here, since the file has no tables.
///
/// # Errors
/// When a value has no TOML form, like an integer above 2^63-1.
pub fn to_toml<T: Serialize>(config: &T) -> Result<String, toml::ser::Error> {
    let mut flat = Table::new();
    flatten(Table::try_from(config)?, &mut flat);
    toml::to_string(&flat)
}

fn flatten(table: Table, flat: &mut Table) {
    for (key, value) in table {
        match value {
            Value::Table(group) => flatten(group, flat),
            setting => {
                flat.insert(key, setting);
            }
        }
    }
}

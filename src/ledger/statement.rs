//! Statements whose text is constant whatever the size of a batch, so that every server's cache of prepared statements hits.
//!
//! A [`Template`] is written once for all databases: `{rows}` stands for the bound set of rows (arrays on PostgreSQL, one
//! JSON text elsewhere), other names in braces for a word of the dialect or a bound value.

use std::collections::HashMap;

use sea_orm::sea_query::ArrayType;
use sea_orm::{Statement, Value};

use super::dialect::{Columns, Dialect, Kind};
use super::fault::Fault;

/// A statement for all databases.
#[derive(Clone, Copy, Debug)]
pub(super) struct Template {
    /// Columns of the set of rows that `{rows}` stands for.
    pub(super) rows: &'static Columns,
    /// PostgreSQL and SQLite.
    pub(super) sql: &'static str,
    /// MySQL and MariaDB, where their grammar is another.
    pub(super) mysql: Option<&'static str>,
}

/// A template written out for one database.
#[derive(Debug)]
pub(super) struct Text {
    dialect: Dialect,
    sql: String,
    /// The bound values in the sequence of their placeholders.
    names: Vec<String>,
}

impl Template {
    /// Writes it out.
    pub(super) fn compile(&self, dialect: Dialect) -> Text {
        let source = self.mysql.filter(|_| dialect.is_mysql()).unwrap_or(self.sql);
        let mut text = Text { dialect, sql: String::with_capacity(source.len() * 2), names: Vec::new() };
        for (index, part) in source.split(['{', '}']).enumerate() {
            // Parts outside and inside of braces alternate.
            let written = match (index % 2, dialect.word(part)) {
                (0, _) => part.to_owned(),
                (_, Some(word)) => word.to_owned(),
                (_, None) if part == "rows" => dialect.rows(self.rows, |name| text.parameter(name)),
                (_, None) => text.parameter(part),
            };
            text.sql.push_str(&written);
        }
        text
    }
}

impl Text {
    /// MySQL counts placeholders; the others number them, so that a value is bound once however often it is used.
    fn parameter(&mut self, name: &str) -> String {
        let known = self.names.iter().position(|bound| bound == name);
        let position = match known {
            Some(position) if !self.dialect.is_mysql() => position,
            Some(_) | None => {
                self.names.push(name.to_owned());
                self.names.len() - 1
            }
        };
        match self.dialect {
            Dialect::Postgres => format!("${}", position + 1),
            Dialect::Sqlite => format!("?{}", position + 1),
            Dialect::MySql | Dialect::MariaDb => "?".to_owned(),
        }
    }

    /// Binds the values. They can be large: only one that is needed again is copied.
    pub(super) fn bind(&self, mut bound: Bound) -> Result<Statement, Fault> {
        let value = |(position, name): (usize, &String)| {
            let again = self.names[position + 1..].contains(name);
            let value = if again { bound.0.get(name.as_str()).cloned() } else { bound.0.remove(name.as_str()) };
            value.ok_or_else(|| Fault::Failed(format!("{name} is not bound in: {}", self.sql)))
        };
        let values = self.names.iter().enumerate().map(value).collect::<Result<Vec<_>, _>>()?;
        Ok(Statement::from_sql_and_values(self.dialect.backend(), self.sql.clone(), values))
    }
}

/// A cell of a row.
#[derive(Debug)]
pub(super) enum Cell<'a> {
    Text(&'a str),
    Int(i64),
    Bytes(&'a [u8]),
}

/// The values of a statement, by name.
#[derive(Clone, Debug, Default)]
pub(super) struct Bound(HashMap<&'static str, Value>);

impl Bound {
    /// Adds a single value.
    pub(super) fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.0.insert(name, value.into());
        self
    }

    /// Adds a set of rows; each row has a cell for each column.
    pub(super) fn rows<'a, const N: usize>(
        dialect: Dialect,
        columns: &'static [(&'static str, Kind); N],
        rows: impl ExactSizeIterator<Item = [Cell<'a>; N]>,
    ) -> Result<Self, Fault> {
        match dialect {
            Dialect::Postgres => Ok(arrays(columns, rows)),
            Dialect::MySql | Dialect::MariaDb | Dialect::Sqlite => json(rows),
        }
    }
}

fn arrays<'a, const N: usize>(
    columns: &'static [(&'static str, Kind); N],
    rows: impl ExactSizeIterator<Item = [Cell<'a>; N]>,
) -> Bound {
    let mut arrays: [Vec<Value>; N] = std::array::from_fn(|_| Vec::with_capacity(rows.len()));
    for row in rows {
        for (array, cell) in arrays.iter_mut().zip(row) {
            array.push(match cell {
                Cell::Text(text) => text.into(),
                Cell::Int(int) => int.into(),
                Cell::Bytes(bytes) => bytes.into(),
            });
        }
    }
    let array = |((name, kind), values): (&(&'static str, Kind), Vec<Value>)| {
        let element = match kind {
            Kind::Id | Kind::Word => ArrayType::String,
            Kind::Int => ArrayType::BigInt,
            Kind::Bytes => ArrayType::Bytes,
        };
        (*name, Value::Array(element, Some(Box::new(values))))
    };
    Bound(columns.iter().zip(arrays).map(array).collect())
}

/// All bytes go into one blob, of which a row names its part: JSON has no bytes, and an encoding would cost a third more.
fn json<'a, const N: usize>(rows: impl ExactSizeIterator<Item = [Cell<'a>; N]>) -> Result<Bound, Fault> {
    let mut text = Vec::with_capacity(rows.len() * N * 16 + 2);
    let mut blob = Vec::new();
    text.push(b'[');
    for (index, row) in rows.enumerate() {
        text.extend_from_slice(if index == 0 { b"[" } else { b",[" });
        for (index, cell) in row.into_iter().enumerate() {
            if index > 0 {
                text.push(b',');
            }
            match cell {
                Cell::Text(word) => serde_json::to_writer(&mut text, word),
                Cell::Int(int) => serde_json::to_writer(&mut text, &int),
                Cell::Bytes(bytes) => {
                    // SQL counts from 1.
                    let place = format!("{},{}", blob.len() + 1, bytes.len());
                    text.extend_from_slice(place.as_bytes());
                    blob.extend_from_slice(bytes);
                    Ok(())
                }
            }
            .map_err(|error| Fault::Failed(error.to_string()))?;
        }
        text.push(b']');
    }
    text.push(b']');
    let text = String::from_utf8(text).map_err(|error| Fault::Failed(error.to_string()))?;
    Ok(Bound::default().with("rows", text).with("blob", blob))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: [(&str, Kind); 3] = [("sku", Kind::Id), ("take", Kind::Int), ("event", Kind::Bytes)];
    const TEMPLATE: Template =
        Template { rows: &ROWS, sql: "SELECT t.sku, {at} FROM {rows} WHERE {at} > 0", mysql: None };

    #[test]
    fn a_value_that_is_used_twice_is_bound_once_where_placeholders_have_numbers() {
        let text = TEMPLATE.compile(Dialect::Postgres);
        assert_eq!(
            text.sql,
            "SELECT t.sku, $1 FROM unnest($2::text[], $3::bigint[], $4::bytea[]) AS t(sku, take, event) WHERE $1 > 0"
        );
        let text = TEMPLATE.compile(Dialect::MariaDb);
        assert_eq!(text.names, ["at", "blob", "rows", "at"]);
    }

    #[test]
    fn a_row_names_its_part_of_the_blob() {
        let rows = [
            [Cell::Text("a\"b"), Cell::Int(1), Cell::Bytes(b"xyz")],
            [Cell::Text(" é"), Cell::Int(i64::MAX), Cell::Bytes(b"")],
        ];
        let bound = Bound::rows(Dialect::Sqlite, &ROWS, rows.into_iter()).expect("bound");
        assert_eq!(bound.0["rows"], Value::from(r#"[["a\"b",1,1,3],[" é",9223372036854775807,4,0]]"#));
        assert_eq!(bound.0["blob"], Value::from(b"xyz".to_vec()));
    }

    #[test]
    fn a_forgotten_value_is_an_error_and_not_a_null() {
        let text = TEMPLATE.compile(Dialect::Sqlite);
        assert!(matches!(text.bind(Bound::default()), Err(Fault::Failed(_))));
    }
}

//! Reads `sku,available` from a CSV file; every bad row is named with its line, and one is enough to refuse the file.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, bail};

use super::parse_units;
use crate::ledger::Change;
use crate::order::Sku;

/// Bad rows that are named; a file of another kind has nothing else.
const MOST_FAULTS: usize = 20;

/// Reads a file, or standard input for `-`.
///
/// # Errors
/// Why it cannot be read, or one line per bad row.
pub(super) fn read(path: &Path) -> anyhow::Result<BTreeMap<Sku, Change>> {
    if path.as_os_str() == "-" {
        return parse(std::io::stdin().lock()).context("standard input: nothing was imported");
    }
    let file = std::fs::File::open(path).with_context(|| path.display().to_string())?;
    parse(file).with_context(|| format!("{}: nothing was imported", path.display()))
}

fn parse(source: impl Read) -> anyhow::Result<BTreeMap<Sku, Change>> {
    // Rows are read as they stand: a trailing space is part of a SKU.
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(source);
    let headers = reader.headers()?.clone();
    let column = |name: &str| {
        let mut found = headers.iter().enumerate().filter(|(_, header)| is_named(header, name)).map(|(at, _)| at);
        match (found.next(), found.next()) {
            (Some(at), None) => Ok(at),
            (None, _) => bail!("line 1: the column {name} is missing; the columns must be sku,available"),
            (Some(_), Some(_)) => bail!("line 1: the column {name} stands there twice"),
        }
    };
    let (sku, available) = (column("sku")?, column("available")?);
    let (mut changes, mut faults) = (BTreeMap::new(), Vec::new());
    for record in reader.records() {
        let read = match record {
            Ok(record) => {
                let line = record.position().map_or(0, csv::Position::line);
                let fits = expect_columns(record.len(), headers.len());
                let read = fits.and_then(|()| insert(&mut changes, record.get(sku), record.get(available)));
                read.map_err(|fault| format!("line {line}: {fault}"))
            }
            Err(fault) => Err(fault.to_string()),
        };
        if let Err(fault) = read {
            faults.push(fault);
        }
    }
    if faults.is_empty() {
        return Ok(changes);
    }
    let more = faults.len().saturating_sub(MOST_FAULTS);
    faults.truncate(MOST_FAULTS);
    if more > 0 {
        faults.push(format!("and {more} more"));
    }
    bail!(faults.join("\n"))
}

fn is_named(header: &str, name: &str) -> bool {
    header.trim_start_matches('\u{feff}').trim() == name
}

/// A comma too many moves the numbers into other columns. What a shorter row lacks is named when it is wanted.
fn expect_columns(found: usize, wanted: usize) -> Result<(), String> {
    if found <= wanted { Ok(()) } else { Err(format!("{found} columns instead of {wanted}")) }
}

fn insert(changes: &mut BTreeMap<Sku, Change>, sku: Option<&str>, available: Option<&str>) -> Result<(), String> {
    let sku = Sku::new(sku.ok_or("the SKU is missing")?)?;
    let text = available.ok_or("the number of available units is missing")?;
    let available = parse_units(text).map_err(|fault| format!("available is {text:?}: {fault}"))?;
    match changes.entry(sku) {
        Entry::Vacant(entry) => {
            entry.insert(Change::Set(available));
            Ok(())
        }
        Entry::Occupied(entry) => Err(format!("{:?} stands in the file twice", entry.key())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(text: &str) -> String {
        format!("{:#}", parse(text.as_bytes()).expect_err("bad"))
    }

    #[test]
    fn skus_are_kept_byte_for_byte() {
        let changes = parse("sku,available\n85123A,1\n85123a, 2\n\"85123A \",3\n".as_bytes()).expect("good");
        let read: Vec<_> = changes.iter().map(|(sku, change)| (sku.as_str(), *change)).collect();
        assert_eq!(read, [("85123A", Change::Set(1)), ("85123A ", Change::Set(3)), ("85123a", Change::Set(2))]);
    }

    #[test]
    fn columns_are_found_by_name() {
        let changes = parse("\u{feff}name,available,sku\nBoots,7,B\n".as_bytes()).expect("good");
        assert_eq!(changes.into_values().collect::<Vec<_>>(), [Change::Set(7)]);
        assert!(faults("item,count\nA,1\n").contains("column sku is missing"));
        assert!(faults("sku,available,sku\nA,1,B\n").contains("column sku stands there twice"));
    }

    #[test]
    fn every_bad_row_is_named_with_its_line() {
        let faults = faults("sku,available\nA,1\nB,-1\nC,x\n,1\nA,2\nD\nE,1,2\nF,9223372036854775808\n");
        for line in [
            "line 3: available is \"-1\": it must be 0 or more",
            "line 4: available is \"x\": it must be a whole number",
            "line 5: an id is empty",
            "line 6: \"A\" stands in the file twice",
            "line 7: the number of available units is missing",
            "line 8: 3 columns instead of 2",
            "line 9: available is \"9223372036854775808\": it must be a whole number from 0 to 9223372036854775807",
        ] {
            assert!(faults.contains(line), "{line}: {faults}");
        }
    }
}

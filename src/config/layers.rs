//! The layers over the defaults, read key by key: what is unknown, of the wrong kind or out of its range is refused with
//! its key, its value, where it stands, and what is allowed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use config::builder::DefaultState;
use config::{ConfigBuilder, File, FileFormat, Map, Source as _, Value, ValueKind};

use super::address::without_passwords;
use super::validate::range_of;
use super::{Error, Settings};

/// What the names of the settings' environment variables begin with, in lower case.
const PREFIX: &str = "lastunit__";
/// The same for one that somebody typed with too few underscores.
const NEARLY_PREFIX: &str = "lastunit_";
/// Names a file that holds the value.
const FILE_SUFFIX: &str = "_file";
/// The one text of which only some are allowed.
const FORMAT: (&str, [&str; 2]) = ("log.format", ["pretty", "json"]);

/// What a setting holds; its default tells.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Text,
    Flag,
    Number,
    Numbers,
}

/// The layers so far.
pub(super) struct Layers {
    kinds: BTreeMap<String, Kind>,
    builder: ConfigBuilder<DefaultState>,
    /// What is wrong with them; the values in question are left out.
    problems: Vec<String>,
}

impl Layers {
    /// The defaults, which say what settings there are.
    pub(super) fn over(defaults: &str) -> Result<Self, Error> {
        let file = File::from_str(defaults, FileFormat::Toml);
        let kind = |value: &ValueKind| match value {
            ValueKind::Boolean(_) => Kind::Flag,
            ValueKind::String(_) => Kind::Text,
            ValueKind::Array(_) => Kind::Numbers,
            _number => Kind::Number,
        };
        let kinds = flatten(file.collect()?).into_iter().map(|(key, value)| (key, kind(&value.kind))).collect();
        let builder = config::Config::builder().add_source(file);
        Ok(Self { kinds, builder, problems: Vec::new() })
    }

    /// Puts a file over them.
    pub(super) fn add_file(&mut self, path: &Path) -> Result<(), Error> {
        let origin = path.display().to_string();
        for (key, value) in flatten(File::from(path).format(FileFormat::Toml).collect()?) {
            match self.kinds.get(&key) {
                Some(kind) => self.set(&key, &origin, &shown(&value), from_file(*kind, &value.kind))?,
                None => self.problems.push(self.unknown(&key, &origin)),
            }
        }
        Ok(())
    }

    /// Puts the environment over them.
    pub(super) fn add_environment(&mut self, env: BTreeMap<String, String>) -> Result<(), Error> {
        for (variable, value) in env {
            let name = variable.to_ascii_lowercase();
            let key = name.strip_prefix(PREFIX).map(|rest| rest.replace("__", "."));
            let Some(key) = key else {
                self.problems.extend(self.meant(&name).map(|key| mistyped(&variable, key)));
                continue;
            };
            let named = key.strip_suffix(FILE_SUFFIX).filter(|named| self.kinds.contains_key(*named));
            let (key, text) = match named {
                Some(named) => (named.to_owned(), read_secret(&variable, &value)?),
                None => (key, value),
            };
            match self.kinds.get(&key) {
                Some(kind) => self.set(&key, &variable, &format!("{text:?}"), from_text(*kind, &text))?,
                None => self.problems.push(match self.meant(&name) {
                    Some(key) => mistyped(&variable, key),
                    None => self.unknown(&key, &variable),
                }),
            }
        }
        Ok(())
    }

    /// The settings with all layers, and what is wrong with the layers.
    pub(super) fn build(self) -> Result<(Settings, Vec<String>), Error> {
        Ok((self.builder.build()?.try_deserialize()?, self.problems))
    }

    /// `shown` is the value as it was given.
    fn set(&mut self, key: &str, origin: &str, shown: &str, value: Option<ValueKind>) -> Result<(), Error> {
        let kind = self.kinds.get(key).copied();
        match value.filter(|value| is_allowed(key, value)) {
            Some(value) => {
                let builder = std::mem::take(&mut self.builder);
                self.builder = builder.set_override(key, Value::new(Some(&origin.to_owned()), value))?;
            }
            // A text may hold a password.
            None if matches!(kind, Some(Kind::Text)) && key != FORMAT.0 => {
                self.problems.push(format!("{key} ({origin}): it must be {}", allowed(key, kind)));
            }
            // So may an address that was put in the place of something else.
            None => {
                let shown = without_passwords(shown);
                self.problems.push(format!("{key} is {shown} ({origin}): it must be {}", allowed(key, kind)));
            }
        }
        Ok(())
    }

    fn unknown(&self, key: &str, origin: &str) -> String {
        let section = key.split('.').next().unwrap_or_default();
        let inside = |known: &&String| known.split('.').next() == Some(section);
        let mut near: Vec<&str> = self.kinds.keys().filter(inside).map(String::as_str).collect();
        let what = if near.is_empty() { "the sections are" } else { "there is" };
        if near.is_empty() {
            near = self.kinds.keys().filter_map(|known| known.split('.').next()).collect();
            near.dedup();
        }
        format!("{key} is no setting ({origin}); {what} {}", near.join(", "))
    }

    /// The setting that a variable of nearly the right name is meant for. Others may begin alike: `LASTUNIT_ENV`, or what
    /// a cluster sets for a service of that name.
    fn meant(&self, name: &str) -> Option<&str> {
        let squeeze = |name: &str| name.split(['_', '.']).filter(|word| !word.is_empty()).collect::<Vec<_>>().join("_");
        let rest = squeeze(name.strip_prefix(NEARLY_PREFIX)?);
        let rest = rest.strip_suffix(FILE_SUFFIX).unwrap_or(&rest);
        self.kinds.keys().map(String::as_str).find(|key| squeeze(key) == rest)
    }
}

fn mistyped(variable: &str, key: &str) -> String {
    let right = key.replace('.', "__").to_ascii_uppercase();
    format!("{variable} is not read: the setting {key} is LASTUNIT__{right}")
}

/// Keys with dots, each with its value.
fn flatten(table: Map<String, Value>) -> BTreeMap<String, Value> {
    let mut flat = BTreeMap::new();
    for (name, value) in table {
        match value.kind {
            ValueKind::Table(inner) => {
                flat.extend(flatten(inner).into_iter().map(|(key, value)| (format!("{name}.{key}"), value)));
            }
            _ => drop(flat.insert(name, value)),
        }
    }
    flat
}

/// A value of the environment, when it is of its kind.
fn from_text(kind: Kind, text: &str) -> Option<ValueKind> {
    let number = |text: &str| text.trim().parse().ok().map(ValueKind::U64);
    match kind {
        Kind::Text => Some(ValueKind::String(text.to_owned())),
        Kind::Flag => text.trim().to_ascii_lowercase().parse().ok().map(ValueKind::Boolean),
        Kind::Number => number(text),
        Kind::Numbers => list(text.split(',').map(number)),
    }
}

/// A value of a file, when it is of its kind.
fn from_file(kind: Kind, value: &ValueKind) -> Option<ValueKind> {
    let number = |value: &ValueKind| match *value {
        ValueKind::I64(number) => u64::try_from(number).ok().map(ValueKind::U64),
        ValueKind::U64(number) => Some(ValueKind::U64(number)),
        _ => None,
    };
    match (kind, value) {
        (Kind::Text, ValueKind::String(_)) | (Kind::Flag, ValueKind::Boolean(_)) => Some(value.clone()),
        (Kind::Number, value) => number(value),
        (Kind::Numbers, ValueKind::Array(values)) => list(values.iter().map(|value| number(&value.kind))),
        (Kind::Text | Kind::Flag | Kind::Numbers, _) => None,
    }
}

fn list(numbers: impl Iterator<Item = Option<ValueKind>>) -> Option<ValueKind> {
    let numbers: Option<Vec<_>> = numbers.map(|number| Some(Value::new(None, number?))).collect();
    numbers.map(ValueKind::Array)
}

/// A value of a file, nearly as it stands there.
fn shown(value: &Value) -> String {
    match &value.kind {
        ValueKind::Array(values) => format!("[{}]", values.iter().map(shown).collect::<Vec<_>>().join(", ")),
        ValueKind::String(text) => format!("{text:?}"),
        _plain => value.to_string(),
    }
}

fn is_allowed(key: &str, value: &ValueKind) -> bool {
    let (least, most) = range_of(key);
    match value {
        ValueKind::U64(number) => (least..=most).contains(number),
        ValueKind::Array(values) => !values.is_empty() && values.iter().all(|value| is_allowed(key, &value.kind)),
        ValueKind::String(text) => key != FORMAT.0 || FORMAT.1.contains(&text.as_str()),
        _flag => true,
    }
}

/// What would be right.
fn allowed(key: &str, kind: Option<Kind>) -> String {
    let (least, most) = range_of(key);
    match kind {
        _ if key == FORMAT.0 => FORMAT.1.join(" or "),
        Some(Kind::Flag) => "true or false".into(),
        Some(Kind::Number) => format!("a whole number from {least} to {most}"),
        Some(Kind::Numbers) => format!("whole numbers from {least} to {most}, one at least, with commas between them"),
        Some(Kind::Text) | None => "text in quotes".into(),
    }
}

/// The content of the file that a `…_FILE` variable names, without the end of its line.
fn read_secret(variable: &str, path: &str) -> Result<String, Error> {
    let secret = std::fs::read_to_string(path);
    let fault = |source| Error::Secret { variable: variable.to_owned(), path: PathBuf::from(path), source };
    secret.map(|secret| secret.trim_end_matches(['\r', '\n']).to_owned()).map_err(fault)
}

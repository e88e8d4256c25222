//! Every statement of the commit path, written once for all databases (see [`super::statement`]).

use super::dialect::{Columns, Dialect, Kind};
use super::statement::{Template, Text};

/// Keys alone.
pub(super) const KEYS: [(&str, Kind); 1] = [("id", Kind::Id)];
/// Decisions.
pub(super) const DECISIONS: [(&str, Kind); 5] = [
    ("order_id", Kind::Id),
    ("reason", Kind::Word),
    ("content_hash", Kind::Bytes),
    ("event", Kind::Bytes),
    ("expires_at", Kind::Word),
];
/// Units to take per SKU.
pub(super) const TAKES: [(&str, Kind); 3] = [("sku", Kind::Id), ("take", Kind::Int), ("token", Kind::Int)];
/// Lines of orders.
pub(super) const LINES: [(&str, Kind); 4] =
    [("order_id", Kind::Id), ("sku", Kind::Id), ("quantity", Kind::Int), ("token", Kind::Int)];
/// Fences: as they were read, and as they shall be.
pub(super) const FENCES: [(&str, Kind); 3] = [("sku", Kind::Id), ("expected", Kind::Int), ("next", Kind::Int)];
/// Changes of stock.
pub(super) const DELTAS: [(&str, Kind); 2] = [("sku", Kind::Id), ("delta", Kind::Int)];

const fn template(rows: &'static Columns, sql: &'static str) -> Template {
    Template { rows, sql, mysql: None }
}

/// The statements for one database.
#[derive(Debug)]
pub(super) struct Texts {
    pub(super) read_stock: Text,
    pub(super) lock_stock: Text,
    pub(super) read_decisions: Text,
    pub(super) insert_decisions: Text,
    pub(super) take_stock: Text,
    pub(super) insert_lines: Text,
    pub(super) advance_fences: Text,
    pub(super) create_stock: Text,
    pub(super) change_stock: Text,
    pub(super) insert_adjustments: Text,
}

impl Texts {
    /// Writes all of them out.
    pub(super) fn new(dialect: Dialect) -> Self {
        Self {
            read_stock: READ_STOCK.compile(dialect),
            lock_stock: LOCK_STOCK.compile(dialect),
            read_decisions: READ_DECISIONS.compile(dialect),
            insert_decisions: INSERT_DECISIONS.compile(dialect),
            take_stock: TAKE_STOCK.compile(dialect),
            insert_lines: INSERT_LINES.compile(dialect),
            advance_fences: ADVANCE_FENCES.compile(dialect),
            create_stock: CREATE_STOCK.compile(dialect),
            change_stock: CHANGE_STOCK.compile(dialect),
            insert_adjustments: INSERT_ADJUSTMENTS.compile(dialect),
        }
    }
}

const READ_STOCK: Template =
    template(&KEYS, "SELECT s.sku, s.available, s.fence_token FROM {rows} {join} stock s ON s.sku = t.id");

/// The rows come sorted: locks are taken in SKU order.
const LOCK_STOCK: Template =
    template(&KEYS, "SELECT s.sku, s.available, s.fence_token FROM {rows} {join} stock s ON s.sku = t.id {for_update}");

const READ_DECISIONS: Template = template(
    &KEYS,
    "SELECT r.order_id, r.reason, r.revision, r.content_hash, r.event \
     FROM {rows} {join} reservation r ON r.order_id = t.id",
);

/// A plain insert: the unique violation is what tells of another decision.
const INSERT_DECISIONS: Template = template(
    &DECISIONS,
    "INSERT INTO reservation (order_id, outcome, reason, revision, content_hash, event, commit_id, decided_at, status, \
     changed_at, expires_at) \
     SELECT t.order_id, CASE t.reason WHEN '' THEN 'reserved' ELSE 'rejected' END, NULLIF(t.reason, ''), 0, \
     t.content_hash, t.event, {commit_id}, {at}, CASE t.reason WHEN '' THEN 'reserved' ELSE 'rejected' END, {at}, \
     CAST(NULLIF(t.expires_at, '') AS {time}) FROM {rows}",
);

/// The fence predicate and the quantity predicate.
const TAKE_STOCK: Template = Template {
    rows: &TAKES,
    sql: "UPDATE stock SET available = stock.available - t.take, fence_token = t.token, updated_at = {at} FROM {rows} \
          WHERE stock.sku = t.sku AND stock.available >= t.take AND stock.fence_token < t.token",
    mysql: Some(
        "UPDATE {rows} STRAIGHT_JOIN stock ON stock.sku = t.sku \
         SET stock.available = stock.available - t.take, stock.fence_token = t.token, stock.updated_at = {at} \
         WHERE stock.available >= t.take AND stock.fence_token < t.token",
    ),
};

const INSERT_LINES: Template = template(
    &LINES,
    "INSERT INTO reservation_line (order_id, sku, quantity, fence_token) \
     SELECT t.order_id, t.sku, t.quantity, t.token FROM {rows}",
);

/// Says which rows it moved, where the grammar allows; MySQL has locked and compared them before.
const ADVANCE_FENCES: Template = Template {
    rows: &FENCES,
    sql: "UPDATE stock SET fence_token = t.next, updated_at = {at} FROM {rows} \
          WHERE stock.sku = t.sku AND stock.fence_token = t.expected RETURNING stock.sku",
    mysql: Some(
        "UPDATE {rows} STRAIGHT_JOIN stock ON stock.sku = t.sku SET stock.fence_token = t.next, stock.updated_at = {at} \
         WHERE stock.fence_token = t.expected",
    ),
};

/// `WHERE true` keeps SQLite from reading the conflict clause as a join's.
const CREATE_STOCK: Template = template(
    &KEYS,
    "INSERT INTO stock (sku, available, fence_token, updated_at) SELECT t.id, 0, 0, {at} FROM {rows} WHERE true \
     {skip_existing}",
);

const CHANGE_STOCK: Template = Template {
    rows: &DELTAS,
    sql: "UPDATE stock SET available = stock.available + t.delta, updated_at = {at} FROM {rows} WHERE stock.sku = t.sku",
    mysql: Some(
        "UPDATE {rows} STRAIGHT_JOIN stock ON stock.sku = t.sku \
         SET stock.available = stock.available + t.delta, stock.updated_at = {at}",
    ),
};

const INSERT_ADJUSTMENTS: Template = template(
    &DELTAS,
    "INSERT INTO stock_adjustment (sku, delta, reason, created_at) SELECT t.sku, t.delta, {reason}, {at} FROM {rows}",
);

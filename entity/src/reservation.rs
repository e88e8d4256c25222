//! The decision on each order, and what became of its hold.

use sea_orm::entity::prelude::*;

/// One order, decided once.
#[derive(Clone, Debug, DeriveEntityModel, Eq, PartialEq)]
#[sea_orm(table_name = "reservation")]
pub struct Model {
    /// The order; compares byte for byte. Its uniqueness is what makes a decision final.
    #[sea_orm(primary_key, auto_increment = false)]
    pub order_id: String,
    /// The decision: `reserved` or `rejected`.
    pub outcome: String,
    /// Why it was rejected; null for a reservation.
    pub reason: Option<String>,
    /// 0, then 1, … by reconsideration.
    pub revision: i32,
    /// SHA-256 of the order's content: tells a duplicate from a conflict.
    pub content_hash: Vec<u8>,
    /// The outcome event's body as it was published.
    pub event: Vec<u8>,
    /// The transaction that decided, as a UUID.
    pub commit_id: String,
    /// When that was.
    pub decided_at: DateTimeUtc,
    /// Where its life stands: `reserved`, `rejected`, `confirmed`, `released` or `expired`.
    pub status: String,
    /// When the status last changed.
    pub changed_at: DateTimeUtc,
    /// When the hold ends by itself; null: never.
    pub expires_at: Option<DateTimeUtc>,
}

/// Joins are written where they are needed.
#[derive(Clone, Copy, Debug, DeriveRelation, EnumIter)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

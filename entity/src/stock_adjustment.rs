//! Every change of stock that is not a reservation.

use sea_orm::entity::prelude::*;

/// One delivery, correction or count.
#[derive(Clone, Debug, DeriveEntityModel, Eq, PartialEq)]
#[sea_orm(table_name = "stock_adjustment")]
pub struct Model {
    /// A running number.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// What.
    pub sku: String,
    /// Units added; negative when units were taken away.
    pub delta: i64,
    /// Why, in the operator's words.
    pub reason: String,
    /// When.
    pub created_at: DateTimeUtc,
}

/// Joins are written where they are needed.
#[derive(Clone, Copy, Debug, DeriveRelation, EnumIter)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

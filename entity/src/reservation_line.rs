//! Units that an order took.

use sea_orm::entity::prelude::*;

/// One SKU of an order that took stock.
#[derive(Clone, Debug, DeriveEntityModel, Eq, PartialEq)]
#[sea_orm(table_name = "reservation_line")]
pub struct Model {
    /// The order.
    #[sea_orm(primary_key, auto_increment = false)]
    pub order_id: String,
    /// What it took.
    #[sea_orm(primary_key, auto_increment = false)]
    pub sku: String,
    /// How many units; at least 1.
    pub quantity: i64,
    /// The fencing token that allowed it.
    pub fence_token: i64,
}

/// Joins are written where they are needed.
#[derive(Clone, Copy, Debug, DeriveRelation, EnumIter)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

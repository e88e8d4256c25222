//! Units on the shelf, and the fence of each SKU.

use sea_orm::entity::prelude::*;

/// One SKU. Rows are never deleted: that would reset the fence.
#[derive(Clone, Debug, DeriveEntityModel, Eq, PartialEq)]
#[sea_orm(table_name = "stock")]
pub struct Model {
    /// What is sold; compares byte for byte.
    #[sea_orm(primary_key, auto_increment = false)]
    pub sku: String,
    /// Units that can still be reserved; never negative.
    pub available: i64,
    /// The highest fencing token that wrote, or the floor of the last recovery: `epoch << 40 | sequence`.
    pub fence_token: i64,
    /// When the row last changed.
    pub updated_at: DateTimeUtc,
}

/// Joins are written where they are needed.
#[derive(Clone, Copy, Debug, DeriveRelation, EnumIter)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

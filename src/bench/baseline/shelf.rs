//! One order, one transaction, with the same predicates and the same rows as the worker's.

use std::time::Duration;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use sea_orm::ActiveValue::Set;
use sea_orm::sea_query::{Expr, ExprTrait};
use sea_orm::sqlx::sqlite::{SqliteJournalMode, SqliteSynchronous};
use sea_orm::{
    ColumnTrait, ConnectOptions, ConnectionTrait, DatabaseConnection, DatabaseTransaction, EntityTrait, QueryFilter,
    TransactionTrait,
};
use uuid::Uuid;

use super::super::Error;
use crate::config;
use crate::order::Order;

/// A pool of connections.
pub(super) struct Shelf {
    db: DatabaseConnection,
}

impl Shelf {
    /// With a connection for each task. SQLite has one writer: there, one connection for all is fastest.
    pub(super) async fn open(settings: &config::Database, tasks: u32) -> Result<Self, Error> {
        let embedded = settings.url.scheme() == "sqlite";
        let mut options = ConnectOptions::new(settings.url.secret());
        options
            .max_connections(if embedded { 1 } else { tasks })
            .acquire_timeout(Duration::from_secs(30))
            .test_before_acquire(false)
            .sqlx_logging(false)
            .map_sqlx_sqlite_opts(|options| {
                options.journal_mode(SqliteJournalMode::Wal).synchronous(SqliteSynchronous::Full)
            });
        // The same remedy as in the worker's pool: small statements would wait for delayed acknowledgements.
        options.map_sqlx_postgres_pool_opts(|pool| {
            pool.after_connect(|_, _| {
                Box::pin(async {
                    nodelay::set_on_all_sockets();
                    Ok(())
                })
            })
        });
        options.map_sqlx_mysql_pool_opts(|pool| {
            pool.after_connect(|_, _| {
                Box::pin(async {
                    nodelay::set_on_all_sockets();
                    Ok(())
                })
            })
        });
        Ok(Self { db: sea_orm::Database::connect(options).await? })
    }

    /// Reserves all lines and records the event, or nothing; gives the event back when it was done.
    pub(super) async fn reserve(
        &self,
        order: &Order,
        tokens: &[i64],
        event: Bytes,
        now: DateTime<Utc>,
    ) -> Result<Option<Bytes>, Error> {
        let transaction = self.db.begin().await?;
        for (line, token) in order.lines.iter().zip(tokens) {
            if !take(&transaction, line.sku.as_str(), line.quantity, *token, now).await? {
                transaction.rollback().await?;
                return Ok(None);
            }
        }
        insert(&transaction, order, None, event.clone(), now).await?;
        let lines = order.lines.iter().zip(tokens).map(|(line, token)| entity::reservation_line::ActiveModel {
            order_id: Set(order.id.as_str().to_owned()),
            sku: Set(line.sku.as_str().to_owned()),
            quantity: Set(line.quantity),
            fence_token: Set(*token),
        });
        entity::reservation_line::Entity::insert_many(lines).exec_without_returning(&transaction).await?;
        transaction.commit().await?;
        Ok(Some(event))
    }

    /// Records that the order got nothing.
    pub(super) async fn reject(&self, order: &Order, event: Bytes, now: DateTime<Utc>) -> Result<(), Error> {
        insert(&self.db, order, Some("sold-out"), event, now).await
    }
}

/// Whether the row passed both predicates.
async fn take(
    transaction: &DatabaseTransaction,
    sku: &str,
    quantity: i64,
    token: i64,
    now: DateTime<Utc>,
) -> Result<bool, Error> {
    use entity::stock::{Column, Entity};
    let taken = Entity::update_many()
        .col_expr(Column::Available, Expr::col(Column::Available).sub(quantity))
        .col_expr(Column::FenceToken, Expr::value(token))
        .col_expr(Column::UpdatedAt, Expr::value(now))
        .filter(Column::Sku.eq(sku))
        .filter(Column::Available.gte(quantity))
        .filter(Column::FenceToken.lt(token))
        .exec(transaction)
        .await?;
    Ok(taken.rows_affected == 1)
}

async fn insert(
    on: &impl ConnectionTrait,
    order: &Order,
    reason: Option<&str>,
    event: Bytes,
    now: DateTime<Utc>,
) -> Result<(), Error> {
    let outcome = if reason.is_none() { "reserved" } else { "rejected" };
    let decision = entity::reservation::ActiveModel {
        order_id: Set(order.id.as_str().to_owned()),
        outcome: Set(outcome.to_owned()),
        reason: Set(reason.map(str::to_owned)),
        revision: Set(0),
        content_hash: Set(order.content_hash.0.to_vec()),
        event: Set(event.into()),
        commit_id: Set(Uuid::new_v4().to_string()),
        decided_at: Set(now),
        status: Set(outcome.to_owned()),
        changed_at: Set(now),
        expires_at: Set(None),
    };
    entity::reservation::Entity::insert(decision).exec_without_returning(on).await?;
    Ok(())
}

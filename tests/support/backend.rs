//! A fresh database of each kind, and its end.

use std::path::Path;

use sea_orm::{ConnectionTrait as _, Database};
use url::Url;

use super::setting;

/// Which database.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Backend {
    Postgres,
    MariaDb,
    Sqlite,
}

impl Backend {
    /// Creates an empty database on that server, or embedded, and returns its address.
    pub async fn create(self, server: Option<&str>, name: &str, folder: &Path) -> String {
        match server {
            Some(server) => {
                run(server, &format!("create database {name}")).await.expect("a new database");
                at(server, name)
            }
            None => format!("sqlite://{}?mode=rwc", folder.join("lastunit.db").display()),
        }
    }

    /// Drops it. Whoever is still connected is cut off.
    pub async fn destroy(self, server: Option<&str>, name: &str) -> Result<(), sea_orm::DbErr> {
        let Some(server) = server else { return Ok(()) };
        let force = if self == Self::Postgres { " with (force)" } else { "" };
        run(server, &format!("drop database if exists {name}{force}")).await
    }

    /// The server's address, with rights to create databases; none for an embedded database.
    pub fn server(self) -> Option<String> {
        match self {
            Self::Postgres => {
                Some(setting("LASTUNIT_TEST_POSTGRES_URL", "postgres://postgres@127.0.0.1:5432/postgres"))
            }
            Self::MariaDb => Some(setting("LASTUNIT_TEST_MARIADB_URL", "mysql://root@127.0.0.1:3306/mysql")),
            Self::Sqlite => None,
        }
    }
}

fn at(server: &str, database: &str) -> String {
    let mut url = Url::parse(server).expect("the server's address");
    url.set_path(database);
    url.into()
}

async fn run(server: &str, sql: &str) -> Result<(), sea_orm::DbErr> {
    let connection = Database::connect(server).await?;
    let done = connection.execute_unprepared(sql).await;
    connection.close().await?;
    done.map(drop)
}

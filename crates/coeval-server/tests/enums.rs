// SPDX-License-Identifier: Apache-2.0
//! Enums over the wire: `tokio-postgres` looks their types up in the catalog and uses the binary format.
#![allow(clippy::unwrap_used)]

mod support;

use bytes::BytesMut;
use std::error::Error;
use support::Running;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{FromSql, IsNull, Kind, ToSql, Type, to_sql_checked};

/// A label of whatever enum the place asks for.
#[derive(Clone, Debug, PartialEq)]
struct Label(String);

fn label(text: &str) -> Label {
    Label(text.to_owned())
}

fn is_enum(ty: &Type) -> bool {
    matches!(ty.kind(), Kind::Enum(_))
}

impl ToSql for Label {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.extend_from_slice(self.0.as_bytes());
        Ok(IsNull::No)
    }

    fn accepts(ty: &Type) -> bool {
        is_enum(ty)
    }

    to_sql_checked!();
}

impl<'a> FromSql<'a> for Label {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(std::str::from_utf8(raw)?.to_owned()))
    }

    fn accepts(ty: &Type) -> bool {
        is_enum(ty)
    }
}

#[test]
fn the_driver_finds_an_enum_and_its_labels_in_the_catalog() {
    let server = Running::new();
    server.runtime.block_on(async {
        let client = server.client().await;
        client
            .batch_execute(
                "CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy'); \
                 CREATE TABLE person (id int PRIMARY KEY, m mood, list mood[])",
            )
            .await
            .unwrap();
        let insert = client.prepare("INSERT INTO person VALUES ($1, $2, $3)").await.unwrap();
        let labels = ["sad", "ok", "happy"].map(str::to_owned).to_vec();
        assert_eq!(insert.params()[1].name(), "mood");
        assert_eq!(*insert.params()[1].kind(), Kind::Enum(labels));
        assert_eq!(*insert.params()[2].kind(), Kind::Array(insert.params()[1].clone()));
        for (id, m) in [(1_i32, Some("happy")), (2, Some("sad")), (3, None)] {
            let m = m.map(label);
            let list: Vec<Label> = m.iter().cloned().chain([label("ok")]).collect();
            client.execute(&insert, &[&id, &m, &list]).await.unwrap();
        }
        let rows = client.query("SELECT m, list FROM person ORDER BY m", &[]).await.unwrap();
        let found: Vec<Option<Label>> = rows.iter().map(|row| row.get(0)).collect();
        assert_eq!(found, [Some(label("sad")), Some(label("happy")), None]);
        assert_eq!(rows[1].get::<_, Vec<Label>>(1), [label("happy"), label("ok")]);
        let found = client
            .query("SELECT id FROM person WHERE m = $1 AND id < $2", &[&label("sad"), &10_i32])
            .await
            .unwrap();
        assert_eq!(found.iter().map(|row| row.get::<_, i32>(0)).collect::<Vec<_>>(), [2]);
        let cast =
            client.query_one("SELECT $1::mood < 'happy', max(m) FROM person", &[&label("ok")]).await.unwrap();
        assert!(cast.get::<_, bool>(0));
        assert_eq!(cast.get::<_, Label>(1), label("happy"));
        let refused =
            client.execute(&insert, &[&4_i32, &label("bad"), &Vec::<Label>::new()]).await.unwrap_err();
        assert_eq!(refused.code(), Some(&SqlState::INVALID_TEXT_REPRESENTATION));
    });
}

#[test]
fn a_prepared_statement_takes_a_label_that_was_added_since() {
    let server = Running::new();
    server.runtime.block_on(async {
        let (client, other) = (server.client().await, server.client().await);
        client
            .batch_execute(
                "CREATE TYPE mood AS ENUM ('sad', 'happy'); CREATE TABLE p (id int PRIMARY KEY, m mood)",
            )
            .await
            .unwrap();
        let insert = client.prepare("INSERT INTO p VALUES ($1, $2)").await.unwrap();
        let select = client.prepare("SELECT id, m FROM p WHERE m < 'happy' ORDER BY m").await.unwrap();
        client.execute(&insert, &[&1_i32, &label("sad")]).await.unwrap();
        other.batch_execute("ALTER TYPE mood ADD VALUE 'meh' BEFORE 'happy'").await.unwrap();
        client.execute(&insert, &[&2_i32, &label("meh")]).await.unwrap();
        for _ in 0..2 {
            let rows = client.query(&select, &[]).await.unwrap();
            let found: Vec<(i32, Label)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
            assert_eq!(found, [(1, label("sad")), (2, label("meh"))]);
        }
    });
}

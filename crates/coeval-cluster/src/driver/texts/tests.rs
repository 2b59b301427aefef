// SPDX-License-Identifier: Apache-2.0
use super::{LoadError, NoText, RowsRefused};
use crate::brick_change::BrickChange;
use crate::driver::start_on_loopback;
use crate::tables::RowsOf;
use crate::wire::Frame;
use arrow::array::{ArrayRef, RecordBatch, StringArray};
use coeval_brick::{BrickSchema, Column, Dimension, DimensionValues};
use coeval_txn::Epoch;
use coeval_txn::cluster::{Body, Code, DictionaryId, Message};
use std::sync::Arc;

const TABLE: u64 = 7;
const CITY: DictionaryId = DictionaryId { table: TABLE, column: 0 };

fn schema() -> BrickSchema {
    let values = DimensionValues::String;
    let city = Dimension { name: "city".into(), values, cardinality: 8, range_size: 8 };
    BrickSchema::new(vec![Column::Dimension(city)]).unwrap()
}

/// A node that logs rows, and answers for them, has to have the texts of their codes on disk before.
#[test]
fn rows_come_with_the_texts_of_their_codes_or_not_at_all() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let cities: ArrayRef = Arc::new(StringArray::from(vec!["Oslo", "Bonn"]));
    let batch = RecordBatch::try_from_iter([("city", cities)]).unwrap();
    runtime.block_on(async {
        let nodes = start_on_loopback(2, 2, directory.path(), runtime.handle()).await.unwrap();
        for node in &nodes {
            node.life().options.tables.declare(TABLE, schema()).unwrap();
        }
        // Node 2 knows these codes by that, and node 1 does not, whoever of them gives codes.
        let (brick, rows) = nodes[1].rows(TABLE, &batch).await.unwrap().pop().unwrap();
        let mut load = nodes[0].begin().await.unwrap();
        let refused = load.append(brick, rows.clone()).await;
        let why = NoText { dictionary: CITY, code: Code::new(0) };
        assert_eq!(refused, Err(LoadError::Refused(RowsRefused::NoText(why))));
        drop(load);

        let (life, from) = (nodes[0].life(), nodes[1].life().member);
        let append = |number, rows| {
            let to = life.member;
            life.step(|engine| {
                // One of node 2, which is not over.
                let before = engine.protocol.latest_committed().get() / 1_024;
                let epoch = Epoch::new((before + 1) * 1_024 + 2);
                let body = Body::Append { epoch, number, brick, rows };
                let (view, clock) = (engine.view(), epoch);
                engine.receive(from.node, Frame::Protocol(Message { from, to, view, clock, body }));
                engine.counts.refused
            })
        };
        let text = |code| {
            let known = life.look(|engine| engine.dictionaries.text_of(CITY, Code::new(code)).cloned());
            known.unwrap()
        };
        let (_, codes) = life.options.tables.check(brick, &rows, RowsOf::OneBrick).unwrap();
        let texts = nodes[1].life().spell(&codes).unwrap().unwrap();
        let (mut part, mut wrong) = (texts.clone(), texts.clone());
        part[0].spellings.pop();
        wrong[0].spellings[0].text = "Rome".into();
        assert_eq!(append(0, BrickChange::Rows(rows.clone())), Some(1));
        assert_eq!(append(0, BrickChange::SpelledRows(rows.clone(), part.into())), Some(2));
        assert_eq!((text(0), text(1)), (None, None), "nothing of what is refused is taken");
        assert_eq!(append(0, BrickChange::SpelledRows(rows.clone(), texts.into())), Some(2));
        assert_eq!(append(1, BrickChange::SpelledRows(rows, wrong.into())), Some(3));
        assert_eq!((text(0).as_deref(), text(1).as_deref()), (Some("Bonn"), Some("Oslo")));
        for node in nodes {
            node.stop().await;
        }
    });
}

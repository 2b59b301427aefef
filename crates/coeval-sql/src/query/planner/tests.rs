// SPDX-License-Identifier: Apache-2.0
//! Views of programs that did not keep their columns.

use crate::engine::Engine;
use coeval_store::{AccessMode, CatalogChange, QualifiedName, Store, StoreOptions, ViewDef};
use coeval_txn::Isolation;

#[test]
fn a_view_without_columns_in_its_definition_is_listed_with_those_of_its_query() {
    let engine = Engine::new(Store::in_memory(StoreOptions::default())).unwrap();
    let mut session = engine.session();
    let columns = "SELECT column_name FROM information_schema.columns \
                   WHERE table_name = 'v' AND column_name IN ('a', 'm')";
    let mut listed = || {
        let results = session.execute(columns).unwrap();
        results.iter().filter_map(|result| result.rows.as_ref()).map(|rows| rows.rows()).sum::<usize>()
    };
    engine.session().execute("CREATE VIEW v (a) AS SELECT 1 AS n, 'text' AS m").unwrap();
    assert_eq!(listed(), 2, "as the definition has them");
    let mut transaction = engine.store().begin(Isolation::Snapshot, AccessMode::ReadWrite);
    let name = QualifiedName::new("public", "v");
    let view = ViewDef::clone(transaction.catalog().view(&name).unwrap());
    assert_eq!(view.output.as_ref().map(Vec::len), Some(2));
    transaction.change_catalog(CatalogChange::PutView(ViewDef { output: None, ..view })).unwrap();
    transaction.commit().unwrap();
    assert_eq!(listed(), 2, "as an older program left it");
}

// SPDX-License-Identifier: Apache-2.0
//! What is declared and forgotten, as the world has it.

use super::super::trial_node::{WithoutRows, number_of, run};
use super::*;
use coeval::Database;

fn in_cluster() -> Database {
    let database = Database::in_memory().unwrap();
    database.engine().set_cluster(Arc::new(WithoutRows));
    database
}

struct Told {
    database: Database,
    declarations: Declarations,
    directory: tempfile::TempDir,
}

fn told() -> Told {
    let (database, directory) = (in_cluster(), tempfile::tempdir().unwrap());
    let declarations = opened(&database, directory.path());
    Told { database, declarations, directory }
}

fn opened(database: &Database, directory: &Path) -> Declarations {
    let store = database.engine().store().clone();
    Declarations::open(store, Tables::start(1).unwrap(), directory).unwrap()
}

/// The same, as if this was a replica, whose primary may have more.
fn following(database: &Database, directory: &Path) -> Declarations {
    Declarations { has_all: false, ..opened(database, directory) }
}

const HITS: &str = "CREATE TABLE hits (day date, n bigint) USING brick \
     PARTITION BY (day RANGE SIZE '10 days' FROM '2026-01-01')";

/// To break it: leave out `follow`'s last loop, or have it stop at a version that it has looked at before something was new.
#[test]
fn the_node_hears_of_tables_that_come_and_go() {
    let Told { database, declarations, directory: _directory } = told();
    declarations.follow().unwrap();
    run(&database, HITS);
    let hits = number_of(&database, "hits");
    declarations.follow().unwrap();
    let schema = spread(database.world().table(SpaceId::new(hits.try_into().unwrap())).unwrap().def());
    assert!(declarations.tables.is_declared_as(hits, &schema.unwrap().1));
    run(&database, "ALTER TABLE hits ADD COLUMN m bigint");
    declarations.follow().unwrap();
    let schema = spread(database.world().table(SpaceId::new(hits.try_into().unwrap())).unwrap().def());
    assert!(declarations.tables.is_declared_as(hits, &schema.unwrap().1));
    assert_eq!(declarations.fate(hits).unwrap(), Fate::Declared);
    run(&database, "DROP TABLE hits");
    declarations.follow().unwrap();
    assert_eq!(declarations.fate(hits).unwrap(), Fate::Gone);
}

/// To break it: take what is not in the world for dropped. A replica that starts with an older world forgets rows then that are
/// acknowledged.
#[test]
fn a_table_that_is_about_to_come_is_waited_for() {
    let Told { database, declarations, directory } = told();
    run(&database, HITS);
    declarations.follow().unwrap();
    let (hits, version) = (number_of(&database, "hits"), database.world().version().get());
    drop(declarations);
    // Of another database, whose world is not so new.
    let younger = Database::in_memory().unwrap();
    assert!(younger.world().version().get() < version);
    assert_eq!(following(&younger, directory.path()).fate(hits).unwrap(), Fate::NotYet);
    run(&database, "DROP TABLE hits");
    assert_eq!(following(&database, directory.path()).fate(hits).unwrap(), Fate::Gone);
}

/// To break it: have `Reach::has_passed` leave out `has_all`. A replica that was promoted, and lacks what it had seen, waits for its own
/// commits then.
#[test]
fn what_the_primary_does_not_have_does_not_come() {
    let Told { database, declarations, directory } = told();
    run(&database, HITS);
    declarations.follow().unwrap();
    let (hits, version) = (number_of(&database, "hits"), database.world().version().get());
    drop(declarations);
    let promoted = Database::in_memory().unwrap();
    assert!(promoted.world().version().get() < version);
    assert_eq!(opened(&promoted, directory.path()).fate(hits).unwrap(), Fate::Gone);
    let declarations = opened(&promoted, directory.path());
    declarations.follow().unwrap();
    assert!(declarations.lock().gone.contains(&hits));
}

/// To break it: have `Reach::has_passed` leave out terms: a replica of whoever was promoted waits until that has made as many commits as the
/// former primary had. Or have `shown_term` give the last of the terms: what is about to come is forgotten. Or have `has_looked_at` go by
/// versions: rows of the table are kept.
#[test]
fn a_table_that_a_later_term_does_not_have_does_not_come() {
    const GONE: u64 = 999;
    let parent = tempfile::tempdir().unwrap();
    let (dir, folder) = (parent.path().join("database"), parent.path().join("cluster"));
    std::fs::create_dir(&folder).unwrap();
    let former = Database::open(&dir).unwrap();
    run(&former, "CREATE TABLE others (n int)");
    let term = former.engine().store().terms().last().unwrap().number;
    std::fs::write(folder.join(FILE_NAME), format!("{GONE} 1000000 {term}\n")).unwrap();
    assert_eq!(following(&former, &folder).fate(GONE).unwrap(), Fate::NotYet);
    drop(former);
    // As whoever is promoted, it writes in a later term.
    let promoted = super::super::super::once_closed(|| Database::open(&dir)).unwrap();
    let declarations = following(&promoted, &folder);
    declarations.follow().unwrap();
    assert_eq!(declarations.fate(GONE).unwrap(), Fate::NotYet, "nothing is shown of that term");
    run(&promoted, "INSERT INTO others VALUES (1)");
    declarations.follow().unwrap();
    assert!(declarations.lock().gone.contains(&GONE));
    assert_eq!(following(&promoted, &folder).fate(GONE).unwrap(), Fate::Gone);
}

/// To break it: look again only when definitions have changed. Rows of a table that a crash has taken are kept for ever then.
#[test]
fn a_table_that_has_not_come_by_its_version_is_forgotten() {
    let Told { database, declarations, directory } = told();
    run(&database, "CREATE TABLE others (n int); CREATE TABLE more (n int)");
    run(&database, HITS);
    declarations.follow().unwrap();
    let (hits, version) = (number_of(&database, "hits"), database.world().version().get());
    drop(declarations);
    let younger = Database::in_memory().unwrap();
    let declarations = following(&younger, directory.path());
    run(&younger, "CREATE TABLE kept (n int)");
    assert!(younger.world().version().get() < version);
    declarations.follow().unwrap();
    assert!(!declarations.lock().gone.contains(&hits));
    while younger.world().version().get() < version {
        run(&younger, "INSERT INTO kept VALUES (1)");
    }
    declarations.follow().unwrap();
    assert!(declarations.lock().gone.contains(&hits));
}

/// To break it: take what is in the world for declared. The node is started again and again then, without a pause.
#[test]
fn a_table_that_the_node_does_not_take_is_not_declared() {
    let Told { database, declarations, directory: _directory } = told();
    run(&database, HITS);
    let hits = number_of(&database, "hits");
    declarations.tables.forget(hits);
    declarations.follow().unwrap();
    assert_eq!(declarations.fate(hits).unwrap(), Fate::NotYet);
}

/// To break it: declare all brick tables. What is in the store of one node alone is on its way to others then.
#[test]
fn tables_that_are_not_spread_are_none_of_the_nodes() {
    let Told { database, declarations, directory: _directory } = told();
    run(&database, &format!("{HITS} WITH (replicas = 0)"));
    declarations.follow().unwrap();
    assert!(!declarations.tables.has(number_of(&database, "hits")));
}

/// To break it: declare what the statement has. One that began before a column was added takes it back then, or fails.
#[test]
fn a_statement_has_the_newest_definition_declared() {
    let Told { database, declarations, directory: _directory } = told();
    run(&database, HITS);
    let hits = number_of(&database, "hits");
    let schema_now = || {
        let world = database.world();
        spread(world.table(SpaceId::new(hits.try_into().unwrap())).unwrap().def()).unwrap().1
    };
    let before = schema_now();
    declarations.declare(hits, &before).unwrap();
    run(&database, "ALTER TABLE hits ADD COLUMN m bigint");
    declarations.follow().unwrap();
    declarations.declare(hits, &before).unwrap();
    assert!(declarations.tables.is_declared_as(hits, &schema_now()));
    run(&database, "DROP TABLE hits");
    let gone = declarations.declare(hits, &before);
    assert!(matches!(gone, Err(Undeclared::Refused(DefinitionError::Forgotten { .. }))), "{gone:?}");
}

#[test]
fn what_is_noted_is_read_again_or_refused() {
    let (plain, of_term) = (SeenAt { version: 2_041, term: None }, SeenAt { version: 0, term: Some(5) });
    let worlds: BTreeMap<u64, SeenAt> = [(17, plain), (23, of_term)].into();
    assert_eq!(text_of(&worlds), "17 2041\n23 0 5\n");
    assert_eq!(parse(&text_of(&worlds)), Some(worlds));
    assert_eq!(parse(""), Some(BTreeMap::new()));
    for text in ["17", "17 x", "17 1 2 3", "17 1 x", "a 1"] {
        assert_eq!(parse(text), None, "{text:?}");
    }
}

// SPDX-License-Identifier: Apache-2.0
//! What follows from roles, memberships and grants.

use super::{Authority, Kind, Object, Principal, Rights, Standing, access_list, is_member};
use crate::engine::Engine;
use crate::error::SqlState;
use crate::session::Session;
use coeval_store::{
    AccessMode, CatalogChange, ColumnDef, ColumnType, Grant, Membership, ObjectAccess, Privilege, Privileges,
    QualifiedName, RoleAttribute, RoleDef, SpaceId, Store, StoreOptions, TableDef, Transaction,
};
use coeval_txn::Isolation;
use std::sync::Arc;

/// `clerk` is in `sales`, `guest` too but does not inherit; `sales` is in `staff`; `root` is a superuser.
fn transaction() -> Transaction {
    let store = Store::in_memory(StoreOptions::default());
    let engine = Engine::new(store).unwrap();
    let mut transaction = engine.store().begin(Isolation::Snapshot, AccessMode::ReadWrite);
    let member = |name: &str, of: &str| {
        let mut role = RoleDef::new(name);
        role.member_of.insert(Membership { role: of.to_owned(), admin: false });
        role
    };
    let mut guest = member("guest", "sales");
    guest.attributes.clear();
    let mut root = RoleDef::new("root");
    root.attributes.insert(RoleAttribute::Superuser);
    for role in [RoleDef::new("staff"), member("sales", "staff"), member("clerk", "sales"), guest, root] {
        transaction.change_catalog(CatalogChange::PutRole(role)).unwrap();
    }
    transaction
}

fn grant(grantee: Option<&str>, privilege: Privilege) -> Grant {
    Grant {
        grantee: grantee.map(str::to_owned),
        grantor: None,
        privileges: Privileges::of(&[privilege]),
        grantable: Privileges::NONE,
    }
}

fn may(authority: &Authority, role: &str, access: &ObjectAccess, privilege: Privilege) -> bool {
    Rights::of(&Principal::named(role), authority.clone()).may(access, privilege)
}

#[test]
fn rights_come_from_owners_grants_and_inherited_memberships() {
    let transaction = transaction();
    let authority = &Authority::of_world(transaction.world());
    let mut access = ObjectAccess::owned_by(Some("staff"));
    assert!(may(authority, "clerk", &access, Privilege::Delete), "over two memberships");
    assert!(!may(authority, "guest", &access, Privilege::Delete), "guest does not inherit");
    assert!(may(authority, "root", &ObjectAccess::default(), Privilege::Delete));
    assert!(!may(authority, "staff", &ObjectAccess::default(), Privilege::Select));
    assert!(!may(authority, "gone", &access, Privilege::Select), "a role that was dropped");

    access.grants.push(grant(None, Privilege::Select));
    access.grants.push(grant(Some("guest"), Privilege::Insert));
    assert!(may(authority, "guest", &access, Privilege::Select), "granted to PUBLIC");
    assert!(may(authority, "guest", &access, Privilege::Insert));
    assert!(!may(authority, "guest", &access, Privilege::Update));
    assert!(is_member("guest", "staff", authority), "it can take the role on");
}

#[test]
fn a_right_on_columns_is_one_on_these_alone() {
    let mut transaction = transaction();
    let columns = vec![ColumnDef::new("a", ColumnType::Int), ColumnDef::new("b", ColumnType::Int)];
    let mut def = TableDef::new(SpaceId::new(100), QualifiedName::new("public", "t"), columns, vec![0]);
    for privilege in [Privilege::Select, Privilege::Update] {
        grant(Some("sales"), privilege).add_to(def.access.of_column_mut(1));
    }
    transaction.change_catalog(CatalogChange::PutTable(Box::new(def.clone()))).unwrap();
    let authority = Authority::of_world(transaction.world());
    let rights = |role: &str| Rights::of(&Principal::named(role), authority.clone());
    let clerk = rights("clerk");
    assert_eq!(clerk.readable(&def).unwrap(), Some(vec![1]), "over a membership");
    assert_eq!(rights("root").readable(&def).unwrap(), None, "all");
    clerk.require_on(&def, Privilege::Update, &[1]).unwrap();
    clerk.require_on(&def, Privilege::Update, &[]).unwrap();
    for columns in [[0].as_slice(), &[0, 1], &[1, 0]] {
        let refused = clerk.require_on(&def, Privilege::Update, columns).unwrap_err();
        assert_eq!(refused.state, SqlState::InsufficientPrivilege, "{columns:?}");
        assert_eq!(refused.message, "permission denied for table t");
    }
    assert!(clerk.require_on(&def, Privilege::Insert, &[]).is_err(), "nothing of the kind was granted");
    assert!(clerk.require(Object::Table(&def), Privilege::Select).is_err(), "not on the table");
    let guest = rights("guest");
    assert!(guest.readable(&def).is_err() && guest.require_on(&def, Privilege::Update, &[1]).is_err());
}

#[test]
fn access_lists_are_shown_as_postgresql_shows_them() {
    let mut access = ObjectAccess::owned_by(Some("Owner"));
    assert_eq!(access_list(Kind::Table, &access), None);
    access.grants.push(grant(None, Privilege::Select));
    let mut usable = grant(Some("clerk"), Privilege::Update);
    usable.grantable = usable.privileges;
    access.grants.push(usable);
    let shown = access_list(Kind::Table, &access).unwrap();
    assert_eq!(shown, ["\"Owner\"=arwdDxt/\"Owner\"", "=r/coeval", "clerk=w*/coeval"]);
}

/// A store with the role `clerk`, and `staff` that it is in.
fn engine_with_roles() -> Arc<Engine> {
    let engine = Engine::new(Store::in_memory(StoreOptions::default())).unwrap();
    let mut transaction = engine.store().begin(Isolation::Snapshot, AccessMode::ReadWrite);
    let mut clerk = RoleDef::new("clerk");
    clerk.member_of.insert(Membership { role: "staff".to_owned(), admin: false });
    for role in [RoleDef::new("staff"), clerk] {
        transaction.change_catalog(CatalogChange::PutRole(role)).unwrap();
    }
    transaction.commit().unwrap();
    engine
}

fn give_schema(transaction: &mut Transaction, owner: &str) {
    let access = ObjectAccess::owned_by(Some(owner));
    transaction.change_catalog(CatalogChange::PutSchemaAccess("public".to_owned(), access)).unwrap();
}

#[test]
fn what_others_have_changed_since_the_snapshot_counts_and_else_what_the_transaction_sees() {
    let engine = engine_with_roles();
    let begin = || engine.store().begin(Isolation::Snapshot, AccessMode::ReadWrite);
    let owner = |transaction: &Transaction| {
        Authority::of(transaction, engine.store()).access(Object::Schema("public")).owner.clone()
    };
    let (mut mine, idle) = (begin(), begin());
    give_schema(&mut mine, "clerk");
    assert_eq!(owner(&mine).as_deref(), Some("clerk"), "its own change");
    assert_eq!(owner(&idle), None);

    let mut other = begin();
    give_schema(&mut other, "staff");
    other.commit().unwrap();
    assert_eq!(owner(&mine).as_deref(), Some("staff"), "both have changed it");
    assert_eq!(owner(&idle).as_deref(), Some("staff"), "in an older snapshot");
}

#[test]
fn a_role_that_changes_itself_does_not_keep_what_was_taken_from_it() {
    let engine = engine_with_roles();
    let begin = || engine.store().begin(Isolation::Snapshot, AccessMode::ReadWrite);
    let is_in_staff =
        |transaction: &Transaction| is_member("clerk", "staff", &Authority::of(transaction, engine.store()));
    let mut mine = begin();
    let mut changed = RoleDef::clone(mine.catalog().role("clerk").unwrap());
    changed.valid_until = Some(1);
    mine.change_catalog(CatalogChange::PutRole(changed)).unwrap();
    assert!(is_in_staff(&mine));

    let mut other = begin();
    other.change_catalog(CatalogChange::PutRole(RoleDef::new("clerk"))).unwrap();
    other.commit().unwrap();
    assert!(!is_in_staff(&mine));

    let mut third = begin();
    third.change_catalog(CatalogChange::RemoveRole("staff".to_owned())).unwrap();
    third.commit().unwrap();
    assert!(Authority::of(&mine, engine.store()).role("staff").is_none(), "it was dropped");
}

/// A session's rights went by its name: who made a role of that name anew, as a superuser, made open sessions superusers.
#[test]
fn a_session_has_the_rights_of_the_role_that_it_was_opened_for_and_of_no_later_one() {
    let engine = Engine::new(Store::in_memory(StoreOptions::default())).unwrap();
    let mut boss = engine.session();
    let mut execute = |sql: &str| boss.execute(sql).map(drop).unwrap();
    execute("CREATE ROLE bob; CREATE ROLE amy SUPERUSER; CREATE TABLE t (a int); GRANT SELECT ON t TO bob");
    let opened = || {
        let mut session = engine.session();
        session.identify("bob", Standing::Role, 7);
        session
    };
    let code = |session: &mut Session, sql: &str| session.execute(sql).map(drop).map_err(|error| error.state);
    let refused: Result<(), SqlState> = Err(SqlState::InsufficientPrivilege);
    let is_nobody = |session: &mut Session| {
        for sql in [
            "SELECT * FROM t",
            "CREATE ROLE mine",
            "ALTER ROLE bob PASSWORD 'mine'",
            "SET ROLE staff",
            "SET SESSION AUTHORIZATION amy",
        ] {
            assert_eq!(code(session, sql), refused, "{sql}");
        }
    };
    let (mut first, mut kept) = (opened(), opened());
    assert_eq!(code(&mut first, "SELECT * FROM t; PREPARE p AS SELECT * FROM t; EXECUTE p"), Ok(()));
    assert_eq!(code(&mut kept, "ALTER ROLE bob PASSWORD 'own'"), Ok(()));
    // What changes the role does not make it another one.
    execute("ALTER ROLE bob VALID UNTIL 'infinity'; CREATE ROLE staff; GRANT staff TO bob");
    assert_eq!(code(&mut kept, "SELECT * FROM t; SET ROLE staff; RESET ROLE"), Ok(()));
    execute("DROP OWNED BY bob; DROP ROLE bob");
    assert_eq!(code(&mut first, "SELECT * FROM t"), refused);
    execute("CREATE ROLE bob CREATEROLE; GRANT SELECT ON t TO bob; GRANT staff TO bob");
    is_nobody(&mut first);
    assert_eq!(code(&mut first, "EXECUTE p"), refused, "a plan that was kept");

    let mut second = opened();
    assert_eq!(code(&mut second, "CREATE ROLE other"), Ok(()), "a session of the new one");
    execute("ALTER ROLE bob RENAME TO rob; ALTER ROLE amy RENAME TO bob; CREATE ROLE amy");
    is_nobody(&mut second);
}

/// A key has the values of columns that a right on others does not let see.
#[test]
fn a_right_on_columns_shows_no_keys_in_details() {
    let engine = Engine::new(Store::in_memory(StoreOptions::default())).unwrap();
    let mut boss = engine.session();
    let mut execute = |sql: &str| boss.execute(sql).map(drop).unwrap();
    execute("CREATE ROLE clerk; CREATE TABLE t (id int PRIMARY KEY, word text UNIQUE)");
    execute("INSERT INTO t VALUES (1, 'hidden'); GRANT SELECT (id), INSERT (id, word) ON t TO clerk");
    let mut clerk = engine.session();
    clerk.identify("clerk", Standing::Role, 7);
    let mut shows_keys = || {
        ["INSERT INTO t VALUES (2, 'hidden')", "INSERT INTO t (id) VALUES (1)"].map(|sql| {
            let refused = clerk.execute(sql).map(drop).unwrap_err();
            assert_eq!(refused.state, SqlState::UniqueViolation, "{sql}");
            refused.detail.is_some_and(|detail| detail.contains("=("))
        })
    };
    assert_eq!(shows_keys(), [false, false]);
    execute("GRANT SELECT ON t TO clerk");
    assert_eq!(shows_keys(), [true, true], "who may read the table sees the key that is taken");
}

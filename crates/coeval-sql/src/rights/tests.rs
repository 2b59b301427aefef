// SPDX-License-Identifier: Apache-2.0
//! What follows from roles, memberships and grants.

use super::{Kind, Principal, Rights, access_list, is_member};
use crate::engine::Engine;
use coeval_store::{
    AccessMode, Catalog, CatalogChange, Grant, Membership, ObjectAccess, Privilege, Privileges,
    RoleAttribute, RoleDef, Store, StoreOptions, Transaction,
};
use coeval_txn::Isolation;

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

fn may(catalog: &Catalog, role: &str, access: &ObjectAccess, privilege: Privilege) -> bool {
    Rights::of(&Principal::named(role), catalog).may(access, privilege)
}

#[test]
fn rights_come_from_owners_grants_and_inherited_memberships() {
    let transaction = transaction();
    let catalog = transaction.catalog();
    let mut access = ObjectAccess::owned_by(Some("staff"));
    assert!(may(catalog, "clerk", &access, Privilege::Delete), "over two memberships");
    assert!(!may(catalog, "guest", &access, Privilege::Delete), "guest does not inherit");
    assert!(may(catalog, "root", &ObjectAccess::default(), Privilege::Delete));
    assert!(!may(catalog, "staff", &ObjectAccess::default(), Privilege::Select));
    assert!(!may(catalog, "gone", &access, Privilege::Select), "a role that was dropped");

    access.grants.push(grant(None, Privilege::Select));
    access.grants.push(grant(Some("guest"), Privilege::Insert));
    assert!(may(catalog, "guest", &access, Privilege::Select), "granted to PUBLIC");
    assert!(may(catalog, "guest", &access, Privilege::Insert));
    assert!(!may(catalog, "guest", &access, Privilege::Update));
    assert!(is_member("guest", "staff", catalog), "it can take the role on");
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

// SPDX-License-Identifier: Apache-2.0
//! Copies of a catalog share what they have in common, and everything is found by all that it is known by.

use super::*;
use crate::enum_type::{EnumDef, EnumType};
use coeval_ptree::Memory;

fn view(number: usize, query: &str) -> ViewDef {
    ViewDef {
        name: QualifiedName::new("public", format!("v{number}")),
        columns: Vec::new(),
        query: query.into(),
        access: ObjectAccess::default(),
        comment: None,
        output: None,
        check: None,
    }
}

#[test]
fn a_change_of_a_copy_shares_the_rest() {
    let mut catalog = Catalog::new();
    (0..10_000).for_each(|number| catalog.put_view(view(number, "SELECT 1")));
    let before = catalog.clone();
    catalog.put_view(view(5_000, "SELECT 2"));
    let mut memory = Memory::default();
    memory.add(&before.names);
    memory.add(&before.views);
    let alone = memory.bytes;
    memory.add(&catalog.names);
    memory.add(&catalog.views);
    assert!(memory.bytes - alone < alone / 50, "{} of {alone} bytes are copied", memory.bytes - alone);
    assert!(catalog.children.ptr_eq(&before.children) && catalog.schemas.ptr_eq(&before.schemas));
    let name = QualifiedName::new("public", "v5000");
    assert_eq!(before.view(&name).map(|view| view.query.as_str()), Some("SELECT 1"));
    assert_eq!(catalog.view(&name).map(|view| view.query.as_str()), Some("SELECT 2"));
}

#[test]
fn a_tables_own_sequences_are_those_that_it_owns_now() {
    let sequence = |id, name: &str, table: Option<u32>| SequenceDef {
        id: SequenceId::new(id),
        name: QualifiedName::new("public", name),
        start: 1,
        increment: 1,
        min: 1,
        max: i64::MAX,
        cycle: false,
        ty: Default::default(),
        owned_by: table.map(|table| (SpaceId::new(table), 0)),
        access: ObjectAccess::default(),
    };
    let mut catalog = Catalog::new();
    let owned = |catalog: &Catalog, table| -> Vec<String> {
        catalog.owned_sequences(SpaceId::new(table)).map(|sequence| sequence.name.name.clone()).collect()
    };
    catalog.put_sequence(sequence(1, "a", Some(7)));
    catalog.put_sequence(sequence(2, "b", Some(7)));
    catalog.put_sequence(sequence(3, "c", None));
    assert_eq!(owned(&catalog, 7), ["a", "b"]);
    catalog.put_sequence(sequence(1, "a", Some(8)));
    catalog.put_sequence(sequence(3, "d", Some(7)));
    assert_eq!((owned(&catalog, 7), owned(&catalog, 8)), (vec!["b".into(), "d".into()], vec!["a".into()]));
    assert_eq!(catalog.resolve(&QualifiedName::new("public", "c")), None);
    (1..=3).for_each(|id| catalog.remove_sequence(SequenceId::new(id)));
    assert!(catalog.owned_sequences.is_empty() && catalog.names.is_empty());
}

#[test]
fn a_type_is_found_by_the_name_that_it_has_now_and_by_its_number() {
    let named = |name: &str| {
        let def = EnumDef::new(
            SpaceId::new(4),
            SpaceId::new(5),
            QualifiedName::new("public", name),
            ["a".to_owned()],
        );
        TypeDef { ty: EnumType::of(def), domain: None, access: ObjectAccess::default() }
    };
    let (old, new) = (QualifiedName::new("public", "old"), QualifiedName::new("public", "new"));
    let mut catalog = Catalog::new();
    catalog.put_type(named("old"));
    catalog.put_type(named("new"));
    assert!(catalog.user_type(&old).is_none() && catalog.user_type(&new).is_some());
    assert_eq!(catalog.user_type_numbered(SpaceId::new(4)).map(|def| def.name()), Some(&new));
    catalog.remove_type(SpaceId::new(4));
    assert!(catalog.types.is_empty() && catalog.numbered_types.is_empty());
}

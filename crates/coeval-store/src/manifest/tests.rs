// SPDX-License-Identifier: Apache-2.0
//! The manifest comes back as it was written, and anything else is told from it.

use super::{BatchRun, HEADER_BYTES, Manifest, SegmentEntry, TableEntry, checksum_of, manifest_path};
use crate::access_rights::{Grant, ObjectAccess, Privilege, Privileges, RoleDef};
use crate::catalog::{
    CheckDef, CheckOption, ColumnDef, QualifiedName, TableDef, TypeDef, Validity, ViewColumn, ViewDef,
};
use crate::default_privileges::{DefaultPrivileges, NewObjects};
use crate::enum_type::{EnumDef, EnumType};
use crate::error::StoreError;
use crate::files::{FileSystem, SimulatedFiles};
use crate::ids::{SequenceId, SpaceId};
use crate::log::ChecksumPolicy;
use crate::replicas::{ReplicaChoice, SynchronousReplicas};
use crate::session_defaults::{DefaultSetting, DefaultsReach, SessionDefaults};
use crate::types::{ColumnType, ElementType};
use proptest::prelude::*;
use std::path::Path;

fn some_manifest() -> Manifest {
    let columns = vec![
        ColumnDef::new("id", ColumnType::BigInt),
        ColumnDef::new("price", ColumnType::Numeric { precision: 12, scale: 2 }),
    ];
    let definition =
        TableDef::new(SpaceId::new(3), QualifiedName::new("public", "t \"quoted\""), columns, vec![0]);
    let run = |segment, first_batch, count| BatchRun { segment, first_batch, count };
    Manifest {
        version: 42,
        log: 1_000_000,
        next_space: 9,
        next_sequence: 4,
        next_segment: 12,
        schemas: vec!["public".into(), "größer".into()],
        tables: vec![TableEntry {
            definition,
            rows: vec![run(7, 0, 3), run(11, 2, 1)],
            indexes: vec![],
            bricks: None,
        }],
        views: vec![ViewDef {
            name: QualifiedName::new("public", "v"),
            columns: vec![],
            query: "SELECT '\\'".into(),
            access: ObjectAccess::default(),
            comment: None,
            output: None,
            check: None,
        }],
        sequences: vec![],
        resume_points: vec![(SequenceId::new(1), Some(-5)), (SequenceId::new(2), None)],
        segments: vec![
            SegmentEntry { number: 7, footer_checksum: 0xdead_beef },
            SegmentEntry { number: 11, footer_checksum: 0 },
        ],
        roles: vec![],
        schema_access: vec![],
        server_access: vec![],
        default_privileges: vec![],
        session_defaults: vec![],
        synchronous_replicas: None,
        types: vec![],
        epochs: None,
        terms: vec![],
        time: 0,
        has_encoded_segments: false,
    }
}

fn decode(bytes: &[u8]) -> Result<Manifest, StoreError> {
    Manifest::decode(bytes, Path::new("/db/MANIFEST"), ChecksumPolicy::Verified)
}

/// The version that its bytes say.
fn version_of(manifest: &Manifest) -> u32 {
    u32::from_le_bytes(manifest.encode()[8..12].try_into().unwrap())
}

#[test]
fn roles_and_owners_make_it_a_manifest_of_version_2() {
    assert_eq!(version_of(&some_manifest()), 1);
    let with_role = Manifest { roles: vec![RoleDef::new("clerk")], ..some_manifest() };
    let mut with_owner = some_manifest();
    with_owner.tables[0].definition.access = ObjectAccess::owned_by(Some("clerk"));
    let schema_access = vec![("public".to_owned(), ObjectAccess::owned_by(Some("clerk")))];
    let with_schema = Manifest { schema_access, ..some_manifest() };
    for manifest in [with_role, with_owner, with_schema] {
        assert_eq!(version_of(&manifest), 2);
        assert_eq!(decode(&manifest.encode()).unwrap(), manifest);
    }
}

#[test]
fn rights_on_servers_make_it_a_manifest_of_version_5() {
    let server_access = vec![("warehouse".to_owned(), ObjectAccess::owned_by(Some("clerk")))];
    let manifest = Manifest { server_access, ..some_manifest() };
    assert_eq!(version_of(&manifest), 5);
    assert_eq!(decode(&manifest.encode()).unwrap(), manifest);
}

#[test]
fn synchronous_replicas_make_it_a_manifest_of_version_7_and_a_list_behind_another_of_version_8() {
    let (names, primary) = (vec!["a".to_owned()], "b".to_owned());
    let before = vec![SynchronousReplicas {
        count: 2,
        choice: ReplicaChoice::First,
        names: names.clone(),
        primary: String::new(),
        before: Vec::new(),
    }];
    let first =
        SynchronousReplicas { count: 1, choice: ReplicaChoice::Any, names, primary, before: Vec::new() };
    let behind_another = SynchronousReplicas { before, ..first.clone() };
    for (list, version) in [(first, 7), (behind_another, 8)] {
        let manifest = Manifest { synchronous_replicas: Some(list), ..some_manifest() };
        assert_eq!(version_of(&manifest), version);
        assert_eq!(decode(&manifest.encode()).unwrap(), manifest);
    }
}

#[test]
fn columns_of_views_make_it_a_manifest_of_version_8_and_views_without_are_read() {
    let without = some_manifest();
    let text = serde_json::to_string(&without.views).unwrap();
    assert!(!text.contains("output"), "as programs before version 8 wrote it: {text}");
    assert_eq!(decode(&without.encode()).unwrap(), without);
    let mut with = without;
    with.views[0].output = Some(vec![ViewColumn { name: "n".into(), ty: ColumnType::Int, default: None }]);
    assert_eq!(version_of(&with), 8);
    assert_eq!(decode(&with.encode()).unwrap(), with);
}

/// A program that does not know of the check would write what it refuses.
#[test]
fn a_view_that_checks_what_is_written_makes_it_a_manifest_of_version_9() {
    for check in [CheckOption::Local, CheckOption::Cascaded] {
        let mut manifest = some_manifest();
        manifest.views[0].check = Some(check);
        assert_eq!(version_of(&manifest), 9);
        assert_eq!(decode(&manifest.encode()).unwrap(), manifest);
    }
}

/// A program that does not know the type is told a version, and not that the file is damaged.
#[test]
fn places_of_logs_make_it_a_manifest_of_version_9() {
    let with = |ty| {
        let mut manifest = some_manifest();
        manifest.views[0].output = Some(vec![ViewColumn { name: "place".into(), ty, default: None }]);
        manifest
    };
    for ty in [ColumnType::PgLsn, ColumnType::Array(ElementType::PgLsn)] {
        let manifest = with(ty);
        assert_eq!(version_of(&manifest), 9);
        assert_eq!(decode(&manifest.encode()).unwrap(), manifest);
    }
    let mut of_table = some_manifest();
    of_table.tables[0].definition.columns[0].ty = ColumnType::PgLsn;
    assert_eq!(version_of(&of_table), 9);
}

#[test]
fn constraints_that_are_not_valid_make_it_a_manifest_of_version_9() {
    let mut manifest = some_manifest();
    let check = CheckDef {
        name: "positive".to_owned(),
        expression: "price > 0".to_owned(),
        validity: Validity::NotValid,
    };
    manifest.tables[0].definition.checks.push(check);
    assert_eq!(version_of(&manifest), 9);
    assert_eq!(decode(&manifest.encode()).unwrap(), manifest);
}

#[test]
fn bit_strings_and_times_with_a_zone_make_it_a_manifest_of_version_11() {
    let lengths = [None, Some(3)];
    let types = lengths.map(ColumnType::Bit).into_iter().chain(lengths.map(ColumnType::Varbit));
    for ty in types.chain([ColumnType::Array(ElementType::Varbit(Some(3))), ColumnType::TimeTz]) {
        let mut manifest = some_manifest();
        manifest.views[0].output = Some(vec![ViewColumn { name: "new".into(), ty, default: None }]);
        assert_eq!(version_of(&manifest), 11, "{ty}");
        assert_eq!(decode(&manifest.encode()).unwrap(), manifest, "{ty}");
    }
}

#[test]
fn numerics_without_digits_make_it_a_manifest_of_version_11() {
    for ty in [ColumnType::AnyNumeric, ColumnType::Array(ElementType::AnyNumeric)] {
        let mut manifest = some_manifest();
        manifest.tables[0].definition.columns[1].ty = ty;
        assert_eq!(version_of(&manifest), 11);
        // Rows lie otherwise than before, which is found out when it is read.
        let read = decode(&manifest.encode()).unwrap();
        assert_eq!(read.tables[0].definition.columns, manifest.tables[0].definition.columns);
        assert_eq!(decode(&read.encode()).unwrap(), read);
    }
}

/// A program that reads Arrow's files alone is told a version, and not that files are damaged.
#[test]
fn encoded_segments_make_it_a_manifest_of_version_10() {
    let manifest = Manifest { has_encoded_segments: true, ..some_manifest() };
    assert_eq!(version_of(&manifest), 10);
    assert_eq!(decode(&manifest.encode()).unwrap(), manifest);
}

/// A program that does not know of them would make objects that lack their grants.
#[test]
fn default_privileges_make_it_a_manifest_of_version_11() {
    let mut access = ObjectAccess::owned_by(Some("boss"));
    access.grants.push(Grant {
        grantee: Some("clerk".to_owned()),
        grantor: Some("boss".to_owned()),
        privileges: Privileges::of(&[Privilege::Select]),
        grantable: Privileges::NONE,
    });
    let default_privileges = vec![DefaultPrivileges { objects: NewObjects::Tables, schema: None, access }];
    let manifest = Manifest { default_privileges, has_encoded_segments: true, ..some_manifest() };
    assert_eq!(version_of(&manifest), 11);
    assert_eq!(decode(&manifest.encode()).unwrap(), manifest);
}

/// A program that does not know of them would open sessions that lack their settings.
#[test]
fn settings_that_sessions_begin_with_make_it_a_manifest_of_version_11() {
    let settings = vec![DefaultSetting { name: "work_mem".to_owned(), value: "64MB".to_owned() }];
    let session_defaults = vec![SessionDefaults { role: None, reach: DefaultsReach::Database, settings }];
    let manifest = Manifest { session_defaults, ..some_manifest() };
    assert_eq!(version_of(&manifest), 11);
    assert_eq!(decode(&manifest.encode()).unwrap(), manifest);
}

#[test]
fn privileges_on_columns_make_it_a_manifest_of_version_11() {
    let mut manifest = some_manifest();
    let update = Grant {
        grantee: Some("clerk".to_owned()),
        grantor: None,
        privileges: Privileges::of(&[Privilege::Update]),
        grantable: Privileges::NONE,
    };
    let mut of_view = manifest.clone();
    update.clone().add_to(manifest.tables[0].definition.access.of_column_mut(1));
    update.add_to(of_view.views[0].access.of_column_mut(0));
    for manifest in [manifest, of_view] {
        assert_eq!(version_of(&manifest), 11);
        assert_eq!(decode(&manifest.encode()).unwrap(), manifest);
    }
}

#[test]
fn types_make_it_a_manifest_of_version_4() {
    let name = QualifiedName::new("public", "mood");
    let labels = ["sad", "happy"].map(str::to_owned);
    let ty = EnumType::of(EnumDef::new(SpaceId::new(8), SpaceId::new(9), name, labels));
    let types = vec![TypeDef { ty, domain: None, access: ObjectAccess::default() }];
    let manifest = Manifest { types, ..some_manifest() };
    assert_eq!(version_of(&manifest), 4);
    assert_eq!(decode(&manifest.encode()).unwrap(), manifest);
}

#[test]
fn a_manifest_is_read_as_it_was_written_and_replaces_the_one_before() {
    let files = SimulatedFiles::new(1);
    let dir = Path::new("/db");
    files.create_dir_all(dir).unwrap();
    let read = |files: &SimulatedFiles| Manifest::read(files, dir, ChecksumPolicy::Verified).unwrap();
    assert_eq!(read(&files), None);
    Manifest::empty().write(&files, dir).unwrap();
    assert_eq!(read(&files), Some(Manifest::empty()));
    some_manifest().write(&files, dir).unwrap();
    let after = files.crash();
    assert_eq!(read(&after), Some(some_manifest()));
    assert_eq!(after.list(dir).unwrap(), ["MANIFEST"]);
}

#[test]
fn a_manifest_that_was_only_written_aside_is_not_there_yet() {
    let files = SimulatedFiles::new(1);
    let dir = Path::new("/db");
    files.create_dir_all(dir).unwrap();
    Manifest::empty().write(&files, dir).unwrap();
    some_manifest().write_aside(&files, dir).unwrap();
    let read = Manifest::read(&files, dir, ChecksumPolicy::Verified).unwrap();
    assert_eq!(read, Some(Manifest::empty()));
}

#[test]
fn another_version_is_told_from_damage() {
    let mut bytes = some_manifest().encode();
    bytes[8] = 12;
    assert!(matches!(decode(&bytes), Err(StoreError::Corrupt { offset: 0, .. })));
    let checksum = checksum_of(&bytes);
    bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
    let error = decode(&bytes).unwrap_err();
    assert!(matches!(error, StoreError::UnsupportedVersion { found: 12, supported: 11, .. }), "{error}");
}

#[test]
fn every_flipped_bit_and_every_cut_is_damage_and_names_the_file() {
    let bytes = some_manifest().encode();
    for place in 0..bytes.len() {
        for bit in 0..8 {
            let mut damaged = bytes.clone();
            damaged[place] ^= 1 << bit;
            let error = decode(&damaged).unwrap_err();
            assert!(matches!(&error, StoreError::Corrupt { file, .. } if file == "/db/MANIFEST"), "{error}");
        }
        assert!(matches!(decode(&bytes[..place]), Err(StoreError::Corrupt { .. })));
    }
    assert_eq!(decode(&bytes).unwrap(), some_manifest());
}

#[test]
fn a_body_that_is_no_manifest_is_damage_at_its_offset() {
    let body = br#"{"version":1}"#;
    let mut bytes = some_manifest().encode();
    bytes.truncate(HEADER_BYTES);
    bytes[16..24].copy_from_slice(&(body.len() as u64).to_le_bytes());
    bytes.extend_from_slice(body);
    let checksum = checksum_of(&bytes);
    bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
    assert!(matches!(decode(&bytes), Err(StoreError::Corrupt { offset: 24, .. })));
    assert_eq!(manifest_path(Path::new("/db")), Path::new("/db/MANIFEST"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Also with a checksum that fits: the body is then whatever it is, and reading it never panics.
    #[test]
    fn mutated_manifests_are_an_error_or_what_was_written(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
        forged in any::<bool>(),
    ) {
        let original = some_manifest().encode();
        let mut bytes = original.clone();
        for (index, value) in changes {
            let place = index.index(bytes.len());
            bytes[place] = value;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        if forged && bytes.len() >= HEADER_BYTES {
            let length = (bytes.len() - HEADER_BYTES) as u64;
            bytes[16..24].copy_from_slice(&length.to_le_bytes());
            let checksum = checksum_of(&bytes);
            bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
            let _ = decode(&bytes);
        } else if let Ok(manifest) = decode(&bytes) {
            prop_assert_eq!(bytes, original);
            prop_assert_eq!(manifest, some_manifest());
        }
    }
}

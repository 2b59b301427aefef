// SPDX-License-Identifier: Apache-2.0
use super::*;

fn mood(labels: &[&str]) -> EnumDef {
    let name = QualifiedName::new("public", "mood");
    EnumDef::new(SpaceId::new(1), SpaceId::new(2), name, labels.iter().map(|&label| label.to_owned()))
}

#[test]
fn a_label_between_two_others_changes_no_place() {
    let old = mood(&["sad", "happy"]);
    let new = old.with_label("ok".to_owned(), LabelPlace::Before(1)).unwrap();
    let new = new.with_label("bad".to_owned(), LabelPlace::Before(0)).unwrap();
    let new = new.with_label("great".to_owned(), LabelPlace::Last).unwrap();
    let names: Vec<&str> = new.labels.iter().map(|label| label.name.as_str()).collect();
    assert_eq!(names, ["bad", "sad", "ok", "happy", "great"]);
    assert!(new.labels.is_sorted_by_key(|label| label.place));
    for label in &old.labels {
        assert_eq!(new.place_of(&label.name), Some(label.place));
    }
    let orders: Vec<f32> = new.labels.iter().map(|label| EnumDef::sort_order(label.place)).collect();
    assert_eq!(orders, [0.0, 1.0, 1.5, 2.0, 3.0]);
}

#[test]
fn forty_labels_fit_between_two_and_the_next_is_refused() {
    let mut def = mood(&["a", "z"]);
    let mut added = 0;
    while let Some(more) = def.with_label(format!("l{added}"), LabelPlace::After(added)) {
        def = more;
        added += 1;
    }
    assert_eq!(added, 40);
    assert!(def.labels.windows(2).all(|pair| pair[0].place < pair[1].place));
}

#[test]
fn equal_definitions_are_one_version_and_their_arrow_type_leads_back_to_it() {
    let (one, other) = (EnumType::of(mood(&["a", "b"])), EnumType::of(mood(&["a", "b"])));
    assert_eq!(one, other);
    assert_ne!(one, EnumType::of(mood(&["a", "c"])));
    assert_eq!(EnumType::of_arrow(&one.arrow()), Some(one));
    let text = serde_json::to_string(&one).unwrap();
    assert_eq!(serde_json::from_str::<EnumType>(&text).unwrap(), one);
}

#[test]
fn a_new_definition_is_refused_where_there_is_no_room_and_a_known_one_never() {
    let known = EnumType::of(mood(&["known", "before"]));
    assert_eq!(EnumType::defined_within(mood(&["known", "before"]), 0), Some(known));
    assert_eq!(EnumType::defined_within(mood(&["never", "seen"]), 0), None);
    let labels: Vec<String> = (0..1_000).map(|label| format!("label {label}")).collect();
    let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
    let before = VERSIONS.read().bytes;
    let _ = EnumType::of(mood(&labels));
    assert!(VERSIONS.read().bytes >= before + 40_000, "what a version takes counts");
    assert!(EnumType::defined(mood(&["room", "enough"])).is_some());
}

#[test]
fn labels_are_found_by_name_in_a_type_of_many() {
    let labels: Vec<String> = (0..1_000).map(|label| format!("{}", label * 7_919 % 1_000)).collect();
    let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
    let ty = EnumType::of(mood(&labels));
    for label in &ty.def().labels {
        assert_eq!(ty.place_of(&label.name), Some(label.place));
    }
    assert_eq!((ty.place_of(""), ty.place_of("1000"), ty.place_of("x")), (None, None, None));
}

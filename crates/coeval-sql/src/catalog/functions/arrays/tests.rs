// SPDX-License-Identifier: Apache-2.0
use super::*;

fn some(parts: &[&str]) -> Vec<Option<String>> {
    parts.iter().map(|part| Some((*part).to_owned())).collect()
}

#[test]
fn elements_may_be_quoted_escaped_and_null() {
    assert_eq!(array_elements("{}").unwrap(), vec![]);
    assert_eq!(array_elements("{ a , \"b c\" }").unwrap(), some(&["a", "b c"]));
    assert_eq!(array_elements(r#"{"a\"b",c\,d,""}"#).unwrap(), some(&["a\"b", "c,d", ""]));
    assert_eq!(array_elements("{NULL,\"NULL\"}").unwrap(), vec![None, Some("NULL".to_owned())]);
}

#[test]
fn blanks_of_postgresql_do_not_count_and_others_are_letters() {
    assert_eq!(array_elements("{\u{b}a \t, b\u{c}}").unwrap(), some(&["a", "b"]));
    assert_eq!(array_elements("{a\u{a0},\u{3000}}").unwrap(), some(&["a\u{a0}", "\u{3000}"]));
    assert!(!is_bare("a\u{b}") && is_bare("a\u{a0}"));
}

#[test]
fn what_is_no_array_is_refused() {
    for text in ["", "1,2", "{1", "{a,,b}", "{\"a}"] {
        let error = array_elements(text).unwrap_err();
        assert_eq!(error.state, SqlState::InvalidTextRepresentation, "{text}");
    }
    assert_eq!(array_elements("{ {1}}").unwrap_err().state, SqlState::FeatureNotSupported);
}

#[test]
fn an_array_is_written_as_it_is_read() {
    for text in ["{}", "{1,NULL,3}"] {
        let list = array_of_text(Some(text), &DataType::Int32, Tz::UTC).unwrap().to_array().unwrap();
        assert_eq!(format_shown(&list, 0, Tz::UTC).unwrap().as_deref(), Some(text));
    }
    let text = r#"{plain,"two words","q\"uote","","null",NULL}"#;
    let list = array_of_text(Some(text), &DataType::Utf8View, Tz::UTC).unwrap().to_array().unwrap();
    assert_eq!(format_shown(&list, 0, Tz::UTC).unwrap().as_deref(), Some(text));
}

#[test]
fn vectors_are_numbers_between_blanks() {
    let list = array_of_text(Some("1 22 3"), &DataType::Int16, Tz::UTC).unwrap().to_array().unwrap();
    assert_eq!(format_shown(&list, 0, Tz::UTC).unwrap().as_deref(), Some("{1,22,3}"));
}

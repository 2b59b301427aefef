// SPDX-License-Identifier: Apache-2.0
use super::*;
use crate::types::format_shown;

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

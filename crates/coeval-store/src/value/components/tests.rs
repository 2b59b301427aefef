// SPDX-License-Identifier: Apache-2.0
use super::*;
use proptest::prelude::*;

fn text_key(text: &str) -> Key {
    let mut writer = KeyWriter::new();
    writer.push(ValueRef::Text(text));
    writer.finish()
}

fn float_key(value: f64) -> Key {
    let mut writer = KeyWriter::new();
    writer.push(ValueRef::Float64(value));
    writer.finish()
}

proptest! {
    #[test]
    fn integers_order_as_their_keys(a: i64, b: i64) {
        let key = |v| { let mut w = KeyWriter::new(); w.push(ValueRef::Int64(v)); w.finish() };
        prop_assert_eq!(a.cmp(&b), key(a).cmp(&key(b)));
    }

    #[test]
    fn decimals_order_as_their_keys(a: i128, b: i128) {
        let key = |v| { let mut w = KeyWriter::new(); w.push(ValueRef::Decimal(v)); w.finish() };
        prop_assert_eq!(a.cmp(&b), key(a).cmp(&key(b)));
    }

    #[test]
    fn floats_order_as_their_keys(a: f64, b: f64) {
        prop_assume!(!a.is_nan() && !b.is_nan());
        prop_assert_eq!(a.partial_cmp(&b).unwrap(), float_key(a).cmp(&float_key(b)));
    }

    #[test]
    fn texts_order_as_their_keys_and_read_back(a in "[\\x00-\\x02a-c]{0,40}", b in "[\\x00-\\x02a-c]{0,40}") {
        prop_assert_eq!(a.cmp(&b), text_key(&a).cmp(&text_key(&b)));
        let key = text_key(&a);
        let mut reader = KeyReader::new(key.as_slice());
        prop_assert_eq!(reader.read(Physical::Text, Nullable::No).unwrap(), Value::Text(a.into()));
        prop_assert!(reader.rest().is_empty());
    }

    #[test]
    fn any_bytes_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        for physical in [Physical::Boolean, Physical::Int16, Physical::Int64, Physical::Text, Physical::Bytes,
                         Physical::Interval, Physical::Uuid, Physical::DecimalLong, Physical::Float64] {
            let mut reader = KeyReader::new(&bytes);
            let read = reader.read(physical, Nullable::Yes);
            let mut skipper = KeyReader::new(&bytes);
            if read.is_ok() {
                skipper.skip(physical, Nullable::Yes).unwrap();
                prop_assert_eq!(reader.position(), skipper.position());
            }
        }
    }
}

#[test]
fn zeros_are_one_key_and_nan_is_above_infinity() {
    assert_eq!(float_key(0.0), float_key(-0.0));
    assert!(float_key(f64::NAN) > float_key(f64::INFINITY));
    assert_eq!(float_key(f64::NAN), float_key(-f64::NAN));
    assert!(float_key(f64::NEG_INFINITY) < float_key(f64::MIN));
}

#[test]
fn null_sorts_last() {
    let key = |value| {
        let mut writer = KeyWriter::new();
        writer.push_nullable(value);
        writer.finish()
    };
    assert!(key(ValueRef::Int32(i32::MAX)) < key(ValueRef::Null));
}

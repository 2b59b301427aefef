// SPDX-License-Identifier: Apache-2.0
//! What the driver and the database are called, and their versions.

use crate::nesting::pushed;
use crate::results::{Batches, of_batch};
use adbc_core::constants::ADBC_VERSION_1_1_0;
use adbc_core::error::Result;
use adbc_core::options::InfoCode;
use adbc_core::schemas::GET_INFO_SCHEMA;
use arrow::array::{
    ArrayRef, BooleanArray, Int64Array, RecordBatch, StringArray, UInt32Array, UnionArray, new_empty_array,
};
use arrow::buffer::ScalarBuffer;
use arrow::datatypes::DataType;
use std::collections::HashSet;
use std::sync::Arc;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A value of one of the union's members.
enum Fact {
    Text(&'static str),
    Switch(bool),
    Number(i64),
}

const FACTS: [(InfoCode, Fact); 9] = [
    (InfoCode::VendorName, Fact::Text("Coeval")),
    (InfoCode::VendorVersion, Fact::Text(VERSION)),
    (InfoCode::VendorArrowVersion, Fact::Text(arrow::ARROW_VERSION)),
    (InfoCode::VendorSql, Fact::Switch(true)),
    (InfoCode::VendorSubstrait, Fact::Switch(false)),
    (InfoCode::DriverName, Fact::Text("ADBC Driver for Coeval")),
    (InfoCode::DriverVersion, Fact::Text(VERSION)),
    (InfoCode::DriverArrowVersion, Fact::Text(arrow::ARROW_VERSION)),
    (InfoCode::DriverAdbcVersion, Fact::Number(ADBC_VERSION_1_1_0 as i64)),
];

/// The facts with these codes, or all of them. Codes that nobody knows are passed over.
///
/// # Errors
/// If the columns are not those of ADBC's schema, which would be a bug.
pub(crate) fn batches(codes: Option<&HashSet<InfoCode>>) -> Result<Batches> {
    let is_wanted = |code: &InfoCode| codes.is_none_or(|codes| codes.contains(code));
    let (mut names, mut members, mut places) = (Vec::new(), Vec::new(), Vec::new());
    let (mut texts, mut switches, mut numbers) = (Vec::new(), Vec::new(), Vec::new());
    for (code, fact) in FACTS.iter().filter(|(code, _)| is_wanted(code)) {
        names.push(u32::from(code));
        let (member, place) = match fact {
            Fact::Text(text) => (0, pushed(&mut texts, *text)),
            Fact::Switch(is_on) => (1, pushed(&mut switches, *is_on)),
            Fact::Number(number) => (2, pushed(&mut numbers, *number)),
        };
        members.push(member);
        places.push(place);
    }
    let schema = Arc::clone(&GET_INFO_SCHEMA);
    let DataType::Union(fields, _) = schema.field(1).data_type() else {
        unreachable!("ADBC's schema has a union there")
    };
    let known: [ArrayRef; 3] = [
        Arc::new(StringArray::from(texts)),
        Arc::new(BooleanArray::from(switches)),
        Arc::new(Int64Array::from(numbers)),
    ];
    let others = fields.iter().skip(known.len()).map(|(_, field)| new_empty_array(field.data_type()));
    let children = known.iter().cloned().chain(others).collect();
    let (members, places) = (ScalarBuffer::from(members), ScalarBuffer::from(places));
    let values = UnionArray::try_new(fields.clone(), members, Some(places), children)?;
    Ok(of_batch(RecordBatch::try_new(schema, vec![Arc::new(UInt32Array::from(names)), Arc::new(values)])?))
}

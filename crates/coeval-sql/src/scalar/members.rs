// SPDX-License-Identifier: Apache-2.0
//! The members of a long IN list, looked up and not compared one after the other.

use super::compare::compare_values;
use super::node::Node;
use coeval_store::{Value, ValueRef};

/// Shorter lists are compared faster than searched.
const SEARCHED_MIN: usize = 16;

/// Constants of one type, in order.
#[derive(Clone, Debug)]
pub(crate) struct Members {
    sorted: Box<[Value]>,
    has_null: bool,
}

impl Members {
    /// The members of a list whose nodes are of one type; `None` if the list is short, or one of its nodes is no constant.
    pub(super) fn of(list: &[Node]) -> Option<Self> {
        if list.len() < SEARCHED_MIN {
            return None;
        }
        let constant = |node: &Node| match node {
            Node::Constant(value) => Some(value.clone()),
            _ => None,
        };
        let mut values = list.iter().map(constant).collect::<Option<Vec<Value>>>()?;
        values.retain(|value| *value != Value::Null);
        let has_null = values.len() < list.len();
        values.sort_unstable_by(|left, right| compare_values(left.borrow(), right.borrow()));
        Some(Self { sorted: values.into(), has_null })
    }

    /// Whether a value of their type is one of them; `None` for NULL. A search takes time logarithmic in their number.
    pub(super) fn contain(&self, value: ValueRef<'_>) -> Option<bool> {
        if value.is_null() {
            return None;
        }
        match self.sorted.binary_search_by(|member| compare_values(member.borrow(), value)) {
            Ok(_) => Some(true),
            Err(_) if self.has_null => None,
            Err(_) => Some(false),
        }
    }
}

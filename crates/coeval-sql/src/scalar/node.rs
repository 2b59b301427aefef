// SPDX-License-Identifier: Apache-2.0
//! A compiled expression.

use super::arithmetic::{ArithmeticOp, NumberKind};
use super::cast::Cast;
use super::compare::CompareOp;
use super::fallback::Fallback;
use super::function::Function;
use super::members::Members;
use coeval_store::{ColumnType, SequenceDef, Value};
use std::sync::Arc;

/// A compiled expression with its type.
#[derive(Clone, Debug)]
pub(crate) struct Scalar {
    pub(crate) node: Node,
    pub(crate) ty: ColumnType,
}

impl Scalar {
    /// The type of its values.
    #[must_use]
    pub(crate) fn ty(&self) -> ColumnType {
        self.ty
    }

    /// Whether every evaluation gives the same value.
    #[must_use]
    pub(crate) fn is_constant(&self) -> bool {
        matches!(self.node, Node::Constant(_))
    }
}

/// One operation of a compiled expression. Operands have been brought to the types the operation needs.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    Column {
        table: usize,
        column: usize,
    },
    Parameter(usize),
    Constant(Value),
    Arithmetic {
        op: ArithmeticOp,
        kind: NumberKind,
        left: Box<Node>,
        right: Box<Node>,
    },
    Negate(Box<Node>),
    Cast {
        input: Box<Node>,
        cast: Cast,
    },
    Compare {
        op: CompareOp,
        scaling: Scaling,
        left: Box<Node>,
        right: Box<Node>,
    },
    Distinct {
        polarity: Polarity,
        left: Box<Node>,
        right: Box<Node>,
    },
    And(Box<[Node]>),
    Or(Box<[Node]>),
    Not(Box<Node>),
    Is {
        input: Box<Node>,
        test: Test,
    },
    In {
        input: Box<Node>,
        list: Box<[Node]>,
        polarity: Polarity,
    },
    /// `IN` a long list of constants.
    Among {
        input: Box<Node>,
        members: Arc<Members>,
        polarity: Polarity,
    },
    Like {
        input: Box<Node>,
        pattern: Box<Node>,
        style: LikeStyle,
        polarity: Polarity,
    },
    Case {
        branches: Box<[(Node, Node)]>,
        otherwise: Option<Box<Node>>,
    },
    Coalesce(Box<[Node]>),
    NullIf {
        left: Box<Node>,
        right: Box<Node>,
    },
    /// The greatest or least of the inputs that are not NULL.
    Extreme {
        wanted: CompareOp,
        inputs: Box<[Node]>,
    },
    Concat(Box<[Node]>),
    Call {
        function: Function,
        inputs: Box<[Node]>,
    },
    TransactionTime,
    NextValue(Arc<SequenceDef>),
    Fallback(Arc<Fallback>),
    /// An operation that is evaluated with room on the stack, for those deep within others.
    WithRoom(Box<Node>),
}

/// How the sides of a comparison meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scaling {
    /// As they are.
    Same,
    /// As decimals, each multiplied by its factor.
    Factors(i128, i128),
}

/// Whether a test is meant as written or negated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Polarity {
    Plain,
    Negated,
}

impl Polarity {
    pub(crate) fn of(negated: &bool) -> Self {
        if *negated { Self::Negated } else { Self::Plain }
    }

    #[inline]
    #[allow(clippy::fn_params_excessive_bools, reason = "a truth value, not a switch")]
    pub(crate) fn apply(self, truth: bool) -> bool {
        truth == (self == Self::Plain)
    }
}

/// `IS ...`, which never gives NULL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Test {
    Null,
    NotNull,
    True,
    NotTrue,
    False,
    NotFalse,
}

/// How `LIKE` reads its pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LikeStyle {
    pub(crate) escape: Option<char>,
    pub(crate) letters: LetterCase,
}

/// Whether upper and lower case differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum LetterCase {
    Sensitive,
    Ignored,
}

impl Scalar {
    /// The tables of the scope that it reads, a bit each.
    pub(crate) fn tables(&self) -> u64 {
        let mut tables = 0;
        self.node.visit(&mut |node| {
            if let Node::Column { table, .. } = node {
                tables |= 1 << table;
            }
        });
        tables
    }

    /// Whether two evaluations may differ though the inputs do not.
    pub(crate) fn is_volatile(&self) -> bool {
        let mut volatile = false;
        self.node.visit(&mut |node| {
            volatile |= matches!(
                node,
                Node::NextValue(_)
                    | Node::Fallback(_)
                    | Node::Call { function: Function::Random | Function::NewUuid, .. }
            );
        });
        volatile
    }

    /// Whether it takes numbers of a sequence.
    pub(crate) fn takes_numbers(&self) -> bool {
        let mut takes = false;
        self.node.visit(&mut |node| takes |= matches!(node, Node::NextValue(_)));
        takes
    }

    /// Whether it counts days by the clocks of the session's zone, which a value that is kept cannot depend on.
    pub(crate) fn counts_days(&self) -> bool {
        let mut counts = false;
        self.node.visit(&mut |node| counts |= matches!(node, Node::Fallback(part) if part.counts_days()));
        counts
    }

    /// Table and column, if it is a column and nothing else.
    pub(crate) fn as_column(&self) -> Option<(usize, usize)> {
        if let Node::Column { table, column } = self.node { Some((table, column)) } else { None }
    }

    /// The value of a column.
    pub(crate) fn column(table: usize, column: usize, ty: ColumnType) -> Self {
        Self { node: Node::Column { table, column }, ty }
    }

    /// NULL.
    pub(crate) fn null(ty: ColumnType) -> Self {
        Self { node: Node::Constant(Value::Null), ty }
    }

    /// The next value of a sequence, for a column of an integer type.
    pub(crate) fn next_value(sequence: Arc<SequenceDef>, ty: ColumnType) -> Self {
        let node = Node::NextValue(sequence);
        let node = match ty {
            ColumnType::BigInt => node,
            narrower => Node::Cast { input: Box::new(node), cast: Cast::Integer(narrower) },
        };
        Self { node, ty }
    }
}

impl Node {
    /// A text that is put together, without the look at the room on the stack: its pieces become those of a longer one.
    pub(super) fn without_room(self) -> Self {
        match self {
            Self::WithRoom(inner) if matches!(*inner, Self::Concat(_)) => *inner,
            other => other,
        }
    }

    /// Visits this operation and all below it.
    fn visit(&self, visitor: &mut dyn FnMut(&Self)) {
        visitor(self);
        match self {
            Self::Column { .. }
            | Self::Parameter(_)
            | Self::Constant(_)
            | Self::TransactionTime
            | Self::NextValue(_) => {}
            Self::Fallback(fallback) => {
                fallback.inputs().iter().for_each(|input| input.node.visit(visitor));
            }
            Self::Negate(input)
            | Self::Not(input)
            | Self::WithRoom(input)
            | Self::Cast { input, .. }
            | Self::Is { input, .. }
            | Self::Among { input, .. } => input.visit(visitor),
            Self::Arithmetic { left, right, .. }
            | Self::Compare { left, right, .. }
            | Self::Distinct { left, right, .. }
            | Self::NullIf { left, right } => {
                left.visit(visitor);
                right.visit(visitor);
            }
            Self::Like { input, pattern, .. } => {
                input.visit(visitor);
                pattern.visit(visitor);
            }
            Self::And(inputs)
            | Self::Or(inputs)
            | Self::Coalesce(inputs)
            | Self::Concat(inputs)
            | Self::Extreme { inputs, .. }
            | Self::Call { inputs, .. } => inputs.iter().for_each(|input| input.visit(visitor)),
            Self::In { input, list, .. } => {
                input.visit(visitor);
                list.iter().for_each(|member| member.visit(visitor));
            }
            Self::Case { branches, otherwise } => {
                for (condition, result) in branches {
                    condition.visit(visitor);
                    result.visit(visitor);
                }
                if let Some(otherwise) = otherwise {
                    otherwise.visit(visitor);
                }
            }
        }
    }
}

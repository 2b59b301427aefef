// SPDX-License-Identifier: Apache-2.0
//! Function calls by name, and the forms that are functions in a dress of their own.

use super::{Compiler, Refusal, Typed};
use crate::scalar::compare::CompareOp;
use crate::scalar::function::{Function, TrimSide};
use crate::scalar::node::Node;
use crate::scalar::promotion::{is_document, is_float, is_integer, is_number, numeric, power_of_ten};
use crate::scalar::scope::folded;
use crate::types::CastContext;
use coeval_store::{ColumnType, Value};
use datafusion::sql::sqlparser::ast::{
    self, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, ObjectNamePart, TrimWhereField,
};

impl Compiler<'_> {
    pub(super) fn function(&mut self, function: &ast::Function) -> Result<Typed, Refusal> {
        let refuse = || Refusal::unsupported(format!("function {}", function.name));
        let [ObjectNamePart::Identifier(name)] = function.name.0.as_slice() else { return Err(refuse()) };
        let name = folded(name);
        if function.over.is_some()
            || !function.within_group.is_empty()
            || function.null_treatment.is_some()
            || !matches!(function.parameters, FunctionArguments::None)
        {
            return Err(refuse());
        }
        if let Some(call) = self.aggregate(&name, function)? {
            return Ok(call);
        }
        let arguments = plain_arguments(function).ok_or_else(refuse)?;
        match (name.as_str(), arguments.as_slice()) {
            ("now" | "current_timestamp" | "transaction_timestamp", []) => {
                Ok(Typed::known(Node::TransactionTime, ColumnType::TimestampTz))
            }
            ("localtimestamp", []) => self.local_now(ColumnType::Timestamp),
            ("current_date", []) => self.local_now(ColumnType::Date),
            ("current_time", []) => self.local_now(ColumnType::TimeTz),
            ("random", []) => Ok(call(Function::Random, [], ColumnType::Double)),
            ("gen_random_uuid" | "uuid_generate_v4", []) => Ok(call(Function::NewUuid, [], ColumnType::Uuid)),
            ("nextval", [sequence]) => self.next_value(sequence),
            ("coalesce", [_, ..]) => {
                let (nodes, ty) = self.alternatives(&arguments)?;
                Ok(Typed::known(Node::Coalesce(nodes.into()), ty))
            }
            ("greatest", [_, ..]) => self.extreme(CompareOp::Greater, &arguments),
            ("least", [_, ..]) => self.extreme(CompareOp::Less, &arguments),
            ("nullif", [_, _]) => {
                let typed = arguments.iter().map(|argument| self.expression(argument));
                let typed = typed.collect::<Result<Vec<Typed>, Refusal>>()?;
                let types = || typed.iter().filter_map(|argument| argument.ty);
                let is_real = |ty: ColumnType| ty == ColumnType::Real;
                // It is compared as another type than both have in common.
                if types().any(is_real) && !types().all(is_real) {
                    return Err(Refusal::unsupported("nullif of a real and another type"));
                }
                let (mut nodes, ty) = self.unify(typed)?;
                if is_document(ty) {
                    return Err(Refusal::unsupported(format!("comparison of {ty}")));
                }
                let right = Box::new(nodes.pop().expect("two arguments"));
                let left = Box::new(nodes.pop().expect("two arguments"));
                Ok(Typed::known(Node::NullIf { left, right }, ty))
            }
            ("lower", [text]) => self.text_call(Function::Lower, text),
            ("upper", [text]) => self.text_call(Function::Upper, text),
            ("length" | "char_length" | "character_length", [text]) => {
                let text = self.text(text)?;
                Ok(call(Function::Length, [text], ColumnType::Int))
            }
            ("substring" | "substr", [text, from]) => self.substring(text, Some(from), None),
            ("substring" | "substr", [text, from, count]) => self.substring(text, Some(from), Some(count)),
            ("trim" | "btrim", [text]) => self.text_call(Function::Trim(TrimSide::Both), text),
            ("ltrim", [text]) => self.text_call(Function::Trim(TrimSide::Leading), text),
            ("rtrim", [text]) => self.text_call(Function::Trim(TrimSide::Trailing), text),
            ("abs", [number]) => self.abs(number),
            ("round", [number]) => self.round(number, None),
            ("round", [number, digits]) => self.round(number, Some(digits)),
            _ => Err(refuse()),
        }
    }

    pub(super) fn special_function(&mut self, expression: &Expr) -> Result<Typed, Refusal> {
        match expression {
            Expr::Substring { expr, substring_from, substring_for, .. } => {
                self.substring(expr, substring_from.as_deref(), substring_for.as_deref())
            }
            Expr::Trim { trim_where, trim_what, expr, trim_characters: None } => {
                let side = match trim_where {
                    None | Some(TrimWhereField::Both) => TrimSide::Both,
                    Some(TrimWhereField::Leading) => TrimSide::Leading,
                    Some(TrimWhereField::Trailing) => TrimSide::Trailing,
                };
                let mut arguments = vec![self.text(expr)?];
                if let Some(characters) = trim_what {
                    arguments.push(self.text(characters)?);
                }
                Ok(call(Function::Trim(side), arguments, ColumnType::Text))
            }
            other => Err(Refusal::unsupported(other)),
        }
    }

    fn alternatives(&mut self, arguments: &[&Expr]) -> Result<(Vec<Node>, ColumnType), Refusal> {
        let typed = arguments.iter().map(|argument| self.expression(argument)).collect::<Result<_, _>>()?;
        self.unify(typed)
    }

    fn extreme(&mut self, wanted: CompareOp, arguments: &[&Expr]) -> Result<Typed, Refusal> {
        let (inputs, ty) = self.alternatives(arguments)?;
        if matches!(ty, ColumnType::Json | ColumnType::Jsonb) {
            return Err(Refusal::unsupported(format!("comparison of {ty}")));
        }
        Ok(Typed::known(Node::Extreme { wanted, inputs: inputs.into() }, ty))
    }

    fn text_call(&mut self, function: Function, text: &Expr) -> Result<Typed, Refusal> {
        let text = self.text(text)?;
        Ok(call(function, [text], ColumnType::Text))
    }

    fn local_now(&mut self, ty: ColumnType) -> Result<Typed, Refusal> {
        let node = self.cast(Node::TransactionTime, ColumnType::TimestampTz, ty, CastContext::Explicit)?;
        Ok(Typed::known(node, ty))
    }

    fn next_value(&mut self, sequence: &Expr) -> Result<Typed, Refusal> {
        match self.text(sequence)? {
            Node::Constant(Value::Text(name)) => {
                let found = self.sequences.and_then(|sequences| sequences(&name));
                let sequence = found.ok_or_else(|| Refusal::unsupported(format!("nextval of \"{name}\"")))?;
                Ok(Typed::known(Node::NextValue(sequence), ColumnType::BigInt))
            }
            _ => Err(Refusal::unsupported("nextval of a computed name")),
        }
    }

    fn substring(
        &mut self,
        text: &Expr,
        from: Option<&Expr>,
        count: Option<&Expr>,
    ) -> Result<Typed, Refusal> {
        let mut arguments = vec![self.text(text)?];
        match from {
            Some(from) => arguments.push(self.integer(from)?),
            None => arguments.push(Node::Constant(Value::Int32(1))),
        }
        if let Some(count) = count {
            arguments.push(self.integer(count)?);
        }
        Ok(call(Function::Substring, arguments, ColumnType::Text))
    }

    fn integer(&mut self, expression: &Expr) -> Result<Node, Refusal> {
        let typed = self.expression(expression)?;
        let (node, ty) = self.settle(typed, ColumnType::Int)?;
        if is_integer(ty) { Ok(node) } else { Err(Refusal::unsupported(format!("{ty} as an integer"))) }
    }

    fn abs(&mut self, number: &Expr) -> Result<Typed, Refusal> {
        let typed = self.expression(number)?;
        match typed.ty {
            Some(ty) if is_number(ty) => Ok(call(Function::Abs, [typed.node], ty)),
            _ => Err(Refusal::unsupported("abs of this type")),
        }
    }

    /// `round` of a decimal keeps as many digits as asked for; of a float, none.
    fn round(&mut self, number: &Expr, digits: Option<&Expr>) -> Result<Typed, Refusal> {
        let typed = self.expression(number)?;
        let ty = typed.ty.ok_or_else(|| Refusal::unsupported("round of this type"))?;
        let kept = match digits.map(|digits| self.integer(digits)).transpose()? {
            None => 0,
            Some(Node::Constant(Value::Int32(digits))) => digits.clamp(-38, 38),
            Some(_) => return Err(Refusal::unsupported("round to a computed number of digits")),
        };
        match ty {
            _ if is_float(ty) && digits.is_none() => Ok(call(Function::RoundFloat, [typed.node], ty)),
            ColumnType::Numeric { precision, scale } => {
                let scale = i32::from(scale);
                let dropped = (scale - kept).max(0);
                let result_scale = kept.clamp(0, scale.max(0));
                let too_far = || Refusal::unsupported("round to so few digits");
                let divisor = power_of_ten(dropped).ok_or_else(too_far)?;
                let factor = power_of_ten(dropped - (scale - result_scale)).ok_or_else(too_far)?;
                let result = numeric(i32::from(precision) - (scale - result_scale) + 1, result_scale);
                Ok(call(Function::RoundDecimal { divisor, factor }, [typed.node], result))
            }
            _ => Err(Refusal::unsupported(format!("round of {ty}"))),
        }
    }
}

fn call(function: Function, inputs: impl Into<Vec<Node>>, ty: ColumnType) -> Typed {
    Typed::known(Node::Call { function, inputs: inputs.into().into() }, ty)
}

/// The arguments of a call that has nothing but plain ones.
pub(super) fn plain_arguments(function: &ast::Function) -> Option<Vec<&Expr>> {
    match &function.args {
        FunctionArguments::None => Some(Vec::new()),
        FunctionArguments::Subquery(_) => None,
        FunctionArguments::List(list) => {
            if list.duplicate_treatment.is_some() || !list.clauses.is_empty() || function.filter.is_some() {
                return None;
            }
            let plain = |argument| match argument {
                &FunctionArg::Unnamed(FunctionArgExpr::Expr(ref expression)) => Some(expression),
                _ => None,
            };
            list.args.iter().map(plain).collect()
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
//! `bit_and`, `bit_or` and `bit_xor` of bit strings, which DataFusion has of integers alone.

use crate::error::{SqlError, SqlState};
use crate::functions::BitOperation;
use crate::types::type_in_words;
use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::{DataType, Field, FieldRef};
use coeval_store::ColumnType;
use datafusion::common::types::logical_binary;
use datafusion::common::{Result, ScalarValue};
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Coercion, Documentation, GroupsAccumulator, ReversedUDAF,
    Signature, TypeSignature, TypeSignatureClass,
};
use std::sync::Arc;

/// The functions of a registry, which take bit strings, too.
///
/// # Errors
/// If one of them is missing there: a bug.
pub(super) fn functions(registry: &dyn FunctionRegistry) -> Result<Vec<Arc<AggregateUDF>>> {
    let operations =
        [("bit_and", BitOperation::And), ("bit_or", BitOperation::Or), ("bit_xor", BitOperation::Xor)];
    let known = operations.into_iter().map(|(name, operation)| {
        let of_integers = registry.udaf(name)?;
        let signature = with_bits(of_integers.signature());
        Ok(Arc::new(AggregateUDF::new_from_impl(BitAggregate { of_integers, operation, signature })))
    });
    known.collect()
}

/// The signature of integers, and behind it that of bytes, which bit strings are to DataFusion.
fn with_bits(of_integers: &Signature) -> Signature {
    let bytes = Coercion::new_exact(TypeSignatureClass::Native(logical_binary()));
    let signatures = vec![of_integers.type_signature.clone(), TypeSignature::Coercible(vec![bytes])];
    Signature::one_of(signatures, of_integers.volatility)
}

/// DataFusion's function, but of bit strings.
#[derive(Debug, PartialEq, Eq, Hash)]
struct BitAggregate {
    of_integers: Arc<AggregateUDF>,
    operation: BitOperation,
    signature: Signature,
}

/// Whether the values of these arguments are bit strings.
fn are_bits(arguments: &[FieldRef]) -> bool {
    arguments.first().is_some_and(|values| *values.data_type() == ColumnType::Bit(None).arrow())
}

impl AggregateUDFImpl for BitAggregate {
    fn name(&self) -> &str {
        self.of_integers.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [bits] if *bits == ColumnType::Bit(None).arrow() => Ok(bits.clone()),
            [ty] if ty.is_binary() => {
                let message = format!("function {}({}) does not exist", self.name(), type_in_words(ty));
                Err(SqlError::new(SqlState::UndefinedFunction, message).into())
            }
            types => self.of_integers.return_type(types),
        }
    }

    fn accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        if !are_bits(arguments.expr_fields) {
            return self.of_integers.accumulator(arguments);
        }
        // Of the others it does not matter how often a value is there.
        if arguments.is_distinct && self.operation == BitOperation::Xor {
            return Err(SqlError::unsupported("bit_xor(DISTINCT ...) of bit strings").into());
        }
        Ok(Box::new(Combined { operation: self.operation, so_far: None }))
    }

    fn state_fields(&self, arguments: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        if !are_bits(arguments.input_fields) {
            return self.of_integers.state_fields(arguments);
        }
        let name = format_state_name(arguments.name, self.name());
        Ok(vec![Arc::new(Field::new(name, ColumnType::Bit(None).arrow(), true))])
    }

    fn groups_accumulator_supported(&self, arguments: AccumulatorArgs<'_>) -> bool {
        !are_bits(arguments.expr_fields) && self.of_integers.groups_accumulator_supported(arguments)
    }

    fn create_groups_accumulator(
        &self,
        arguments: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        self.of_integers.create_groups_accumulator(arguments)
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.of_integers.documentation()
    }
}

/// What the bit strings so far come to, as it is kept; nothing of none.
#[derive(Debug)]
struct Combined {
    operation: BitOperation,
    so_far: Option<Vec<u8>>,
}

impl Accumulator for Combined {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for bits in values[0].as_binary::<i32>().iter().flatten() {
            self.so_far = Some(match self.so_far.take() {
                Some(so_far) => self.operation.of_strings(&so_far, bits)?,
                None => bits.to_vec(),
            });
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Binary(self.so_far.clone()))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.so_far.as_ref().map_or(0, Vec::capacity)
    }
}

// SPDX-License-Identifier: Apache-2.0
//! `nextval`, `currval`, `lastval` and `setval` in queries.
//!
//! A plan holds only the functions' names; what they work on is carried by the options
//! that DataFusion hands to functions. So a plan can be kept and run again in any session.

use super::{Sequences, Taking};
use crate::carried::Carry;
use crate::context::{SequenceValues, StatementContext};
use crate::error::SqlError;
use crate::rights::{Object, Rights};
use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use coeval_store::{Privilege, SequenceDef, SetValue, Store, World};
use datafusion::common::config::ConfigOptions;
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};
use parking_lot::Mutex;
use std::sync::Arc;

/// What the functions of one statement work on. Clones share it.
///
/// # Locking
/// `values` is held while one batch of values is taken; nothing else is locked meanwhile but the store's own
/// sequence states.
#[derive(Clone, Debug)]
pub(crate) struct SequenceAccess(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    store: Store,
    world: Arc<World>,
    path: Vec<String>,
    taking: Taking,
    rights: Rights,
    values: Mutex<SequenceValues>,
}

impl SequenceAccess {
    /// What a statement's functions work on, for its options to carry.
    pub(crate) fn of(context: &StatementContext<'_>) -> Self {
        let taking = if context.transaction.is_read_only() { Taking::ReadOnly } else { Taking::Allowed };
        Self(Arc::new(Shared {
            store: context.engine.store().clone(),
            world: Arc::clone(context.transaction.world()),
            path: context.settings.name_path().to_vec(),
            taking,
            rights: context.rights(),
            values: Mutex::new(context.sequences.clone()),
        }))
    }

    /// The session's sequence values after the statement.
    pub(crate) fn values(&self) -> SequenceValues {
        self.0.values.lock().clone()
    }

    /// Refuses what takes one of these privileges on a sequence.
    fn require(&self, sequence: &SequenceDef, privileges: &[Privilege]) -> Result<(), SqlError> {
        self.0.rights.require_any(Object::Sequence(sequence), privileges)
    }

    fn with<T>(&self, work: impl FnOnce(&mut Sequences<'_>) -> Result<T, SqlError>) -> Result<T, SqlError> {
        let shared = &self.0;
        let mut values = shared.values.lock();
        work(&mut Sequences {
            store: &shared.store,
            catalog: shared.world.catalog(),
            path: &shared.path,
            taking: shared.taking,
            values: &mut values,
        })
    }
}

impl Carry for SequenceAccess {
    const NAME: &'static str = "coeval_sequences";
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Next,
    Current,
    Last,
    Set,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct SequenceFunction {
    kind: Kind,
    signature: Signature,
}

/// All of them, for the engine's registry.
pub(crate) fn functions() -> Vec<ScalarUDF> {
    let text = DataType::Utf8View;
    let shapes = [
        (Kind::Next, vec![TypeSignature::Exact(vec![text.clone()])]),
        (Kind::Current, vec![TypeSignature::Exact(vec![text.clone()])]),
        (Kind::Last, vec![TypeSignature::Nullary]),
        (
            Kind::Set,
            vec![
                TypeSignature::Exact(vec![text.clone(), DataType::Int64]),
                TypeSignature::Exact(vec![text, DataType::Int64, DataType::Boolean]),
            ],
        ),
    ];
    let function = |(kind, signatures)| {
        let signature = Signature::one_of(signatures, Volatility::Volatile);
        ScalarUDF::from(SequenceFunction { kind, signature })
    };
    shapes.into_iter().map(function).collect()
}

/// Whether a function of this name is one of them.
pub(crate) fn is_sequence_function(name: &str) -> bool {
    matches!(name, "nextval" | "currval" | "lastval" | "setval")
}

impl SequenceFunction {
    fn value(
        &self,
        access: &SequenceAccess,
        arguments: &[ArrayRef],
        row: usize,
    ) -> Result<Option<i64>, SqlError> {
        if arguments.iter().any(|array| array.is_null(row)) {
            return Ok(None);
        }
        let text = |index: usize| arguments[index].as_string_view().value(row);
        let value = access.with(|sequences| match self.kind {
            Kind::Next => {
                let sequence = sequences.named(text(0))?;
                access.require(&sequence, &[Privilege::Usage, Privilege::Update])?;
                sequences.next(&sequence)
            }
            Kind::Current => {
                let sequence = sequences.named(text(0))?;
                access.require(&sequence, &[Privilege::Usage, Privilege::Select])?;
                sequences.current(&sequence)
            }
            Kind::Last => sequences.last(),
            Kind::Set => {
                let sequence = sequences.named(text(0))?;
                access.require(&sequence, &[Privilege::Update])?;
                let value = arguments[1].as_primitive::<Int64Type>().value(row);
                let used = arguments.get(2).is_none_or(|used| used.as_boolean().value(row));
                sequences.set(&sequence, value, if used { SetValue::Used } else { SetValue::Next })
            }
        });
        value.map(Some)
    }
}

fn access(options: &ConfigOptions) -> Result<&SequenceAccess> {
    match SequenceAccess::carried_by(options) {
        Some(access) => Ok(access),
        None => internal_err!("a sequence function runs outside a statement"),
    }
}

impl ScalarUDFImpl for SequenceFunction {
    fn name(&self) -> &str {
        match self.kind {
            Kind::Next => "nextval",
            Kind::Current => "currval",
            Kind::Last => "lastval",
            Kind::Set => "setval",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let access = access(&args.config_options)?;
        let wanted = [DataType::Utf8View, DataType::Int64, DataType::Boolean];
        let arguments: Vec<ArrayRef> = args
            .args
            .iter()
            .zip(&wanted)
            .map(|(argument, ty)| Ok(cast(&argument.to_array(args.number_rows)?, ty)?))
            .collect::<Result<_>>()?;
        let values: Vec<Option<i64>> = (0..args.number_rows)
            .map(|row| self.value(access, &arguments, row).map_err(DataFusionError::from))
            .collect::<Result<_>>()?;
        Ok(ColumnarValue::Array(Arc::new(Int64Array::from(values))))
    }
}

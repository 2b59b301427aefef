// SPDX-License-Identifier: Apache-2.0
//! `pg_sleep`: a query that waits, without a thread that does.

use crate::error::SqlError;
use arrow::array::{Array, AsArray, StringViewArray};
use arrow::datatypes::{DataType, Float64Type};
use async_trait::async_trait;
use datafusion::common::Result;
use datafusion::logical_expr::async_udf::{AsyncScalarUDF, AsyncScalarUDFImpl};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;
use std::time::Duration;

/// The function.
pub(super) fn function() -> ScalarUDF {
    let signature = Signature::exact(vec![DataType::Float64], Volatility::Volatile);
    AsyncScalarUDF::new(Arc::new(Sleep { signature })).into_scalar_udf()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Sleep {
    signature: Signature,
}

impl ScalarUDFImpl for Sleep {
    fn name(&self) -> &str {
        "pg_sleep"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Err(SqlError::unsupported("pg_sleep in this expression").into())
    }
}

#[async_trait]
impl AsyncScalarUDFImpl for Sleep {
    /// Sleeps once for each row. Cancelling the statement ends the wait, as it drops this future.
    async fn invoke_async_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let seconds = args.args[0].to_array(args.number_rows)?;
        let seconds = seconds.as_primitive::<Float64Type>();
        for row in (0..args.number_rows).filter(|row| !seconds.is_null(*row)) {
            if let Ok(time) = Duration::try_from_secs_f64(seconds.value(row)) {
                tokio::time::sleep(time).await;
            }
        }
        let nothing = (0..args.number_rows).map(|row| (!seconds.is_null(row)).then_some(""));
        Ok(ColumnarValue::Array(Arc::new(StringViewArray::from_iter(nothing))))
    }
}

// SPDX-License-Identifier: Apache-2.0
//! Functions and expressions that do what another one does, but for some of their methods.

/// Methods of [`ScalarUDFImpl`](datafusion::logical_expr::ScalarUDFImpl), [`AggregateUDFImpl`](datafusion::logical_expr::AggregateUDFImpl)
/// or [`PhysicalExpr`](datafusion::physical_plan::PhysicalExpr) that are those of the function or the expression in this field.
macro_rules! as_wrapped {
    ($inner:ident: $($method:ident),+) => {
        $(as_wrapped!(@ $method $inner);)+
    };
    (@ name $inner:ident) => {
        as_wrapped!(= $inner.name() -> &str);
    };
    (@ aliases $inner:ident) => {
        as_wrapped!(= $inner.aliases() -> &[String]);
    };
    (@ signature $inner:ident) => {
        as_wrapped!(= $inner.signature() -> &datafusion::logical_expr::Signature);
    };
    (@ return_type $inner:ident) => {
        as_wrapped!(= $inner.return_type(types: &[arrow::datatypes::DataType])
            -> datafusion::common::Result<arrow::datatypes::DataType>);
    };
    (@ return_field_from_args $inner:ident) => {
        as_wrapped!(= $inner.return_field_from_args(arguments: datafusion::logical_expr::ReturnFieldArgs<'_>)
            -> datafusion::common::Result<arrow::datatypes::FieldRef>);
    };
    (@ coerce_types $inner:ident) => {
        as_wrapped!(= $inner.coerce_types(types: &[arrow::datatypes::DataType])
            -> datafusion::common::Result<Vec<arrow::datatypes::DataType>>);
    };
    (@ evaluate_bounds $inner:ident) => {
        as_wrapped!(= $inner.evaluate_bounds(inputs: &[&datafusion::logical_expr::interval_arithmetic::Interval])
            -> datafusion::common::Result<datafusion::logical_expr::interval_arithmetic::Interval>);
    };
    (@ output_ordering $inner:ident) => {
        as_wrapped!(= $inner.output_ordering(inputs: &[datafusion::logical_expr::sort_properties::ExprProperties])
            -> datafusion::common::Result<datafusion::logical_expr::sort_properties::SortProperties>);
    };
    (@ invoke_with_args $inner:ident) => {
        as_wrapped!(= $inner.invoke_with_args(arguments: datafusion::logical_expr::ScalarFunctionArgs)
            -> datafusion::common::Result<datafusion::logical_expr::ColumnarValue>);
    };
    (@ groups_accumulator_supported $inner:ident) => {
        as_wrapped!(= $inner.groups_accumulator_supported(
            arguments: datafusion::logical_expr::function::AccumulatorArgs<'_>
        ) -> bool);
    };
    (@ create_groups_accumulator $inner:ident) => {
        as_wrapped!(= $inner.create_groups_accumulator(
            arguments: datafusion::logical_expr::function::AccumulatorArgs<'_>
        ) -> datafusion::common::Result<Box<dyn datafusion::logical_expr::GroupsAccumulator>>);
    };
    (@ create_sliding_accumulator $inner:ident) => {
        as_wrapped!(= $inner.create_sliding_accumulator(
            arguments: datafusion::logical_expr::function::AccumulatorArgs<'_>
        ) -> datafusion::common::Result<Box<dyn datafusion::logical_expr::Accumulator>>);
    };
    (@ is_descending $inner:ident) => {
        as_wrapped!(= $inner.is_descending() -> Option<bool>);
    };
    (@ order_sensitivity $inner:ident) => {
        as_wrapped!(= $inner.order_sensitivity()
            -> datafusion::logical_expr::utils::AggregateOrderSensitivity);
    };
    (@ value_from_stats $inner:ident) => {
        as_wrapped!(= $inner.value_from_stats(arguments: &datafusion::logical_expr::StatisticsArgs<'_>)
            -> Option<datafusion::common::ScalarValue>);
    };
    (@ set_monotonicity $inner:ident) => {
        fn set_monotonicity(
            &self,
            ty: &arrow::datatypes::DataType,
        ) -> datafusion::logical_expr::SetMonotonicity {
            self.$inner.inner().set_monotonicity(ty)
        }
    };
    (@ data_type $inner:ident) => {
        as_wrapped!(= $inner.data_type(schema: &arrow::datatypes::Schema)
            -> datafusion::common::Result<arrow::datatypes::DataType>);
    };
    (@ nullable $inner:ident) => {
        as_wrapped!(= $inner.nullable(schema: &arrow::datatypes::Schema) -> datafusion::common::Result<bool>);
    };
    (@ return_field $inner:ident) => {
        as_wrapped!(= $inner.return_field(schema: &arrow::datatypes::Schema)
            -> datafusion::common::Result<arrow::datatypes::FieldRef>);
    };
    (@ fmt_sql $inner:ident) => {
        as_wrapped!(= $inner.fmt_sql(f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result);
    };
    (= $inner:ident.$method:ident($($argument:ident: $ty:ty)?) -> $result:ty) => {
        fn $method(&self $(, $argument: $ty)?) -> $result {
            self.$inner.$method($($argument)?)
        }
    };
}

pub(crate) use as_wrapped;

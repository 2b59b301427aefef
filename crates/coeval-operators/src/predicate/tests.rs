// SPDX-License-Identifier: Apache-2.0
use super::*;
use arrow::array::{
    Date32Array, Decimal128Array, DictionaryArray, Float32Array, Float64Array, Int16Array, Int32Array,
    Int64Array, NullArray, Time64MicrosecondArray, TimestampMicrosecondArray,
};
use arrow::compute::cast;
use datafusion::common::cast::as_boolean_array;
use datafusion::physical_expr::expressions::{binary, col, in_list, is_not_null, is_null, lit, not};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const OPERATORS: [Operator; 6] =
    [Operator::Eq, Operator::NotEq, Operator::Lt, Operator::LtEq, Operator::Gt, Operator::GtEq];

const TEXTS: [&str; 6] =
    ["", "a", "twelve bytes", "thirteen byte", "thirteen bytes!", "thirteen bytes, and then some"];

/// What floats have beside numbers.
const FLOATS: [f64; 8] = [0.0, -0.0, 1.5, -1.5, f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY];

/// What the columns of numbers are called.
const NUMBERS: [&str; 10] =
    ["short", "word", "day", "long", "time", "moment", "money", "wide", "single", "double"];

/// A column of each type, twice: the second one has other values, and `other` before its name.
fn rows(count: usize) -> RecordBatch {
    let first = columns(count, |row| (row % 7 != 3).then_some((row * 37 % 11) as i64 - 5));
    let second = columns(count, |row| (row % 5 != 1).then_some((row * 53 % 11) as i64 - 5));
    let second = second.into_iter().map(|(name, column)| (format!("other {name}"), column));
    let mut all: Vec<(String, ArrayRef)> =
        first.into_iter().map(|(name, column)| (name.to_owned(), column)).chain(second).collect();
    // Without a NULL.
    let row = (0..count).map(|row| Some(row as i64 % 4)).collect::<Int64Array>();
    all.push(("row".to_owned(), Arc::new(row)));
    let all = all.into_iter().map(|(name, column)| (name, column, true));
    RecordBatch::try_from_iter_with_nullable(all).expect("the columns are of one length")
}

/// A column of each type: of numbers those that the function gives for each row, with its NULLs.
fn columns(count: usize, number: fn(usize) -> Option<i64>) -> [(&'static str, ArrayRef); 12] {
    let numbers = || (0..count).map(number);
    let decimals = |precision, scale| {
        let values = numbers().map(|number| number.map(i128::from)).collect::<Decimal128Array>();
        values.with_precision_and_scale(precision, scale).expect("they are small")
    };
    let texts = numbers().map(|number| number.map(|number| TEXTS[(number + 5) as usize % TEXTS.len()]));
    let floats = || numbers().map(|number| number.map(|number| FLOATS[(number + 5) as usize % FLOATS.len()]));
    let shorts = numbers().map(|number| number.map(|number| number as i16)).collect::<Int16Array>();
    let words = numbers().map(|number| number.map(|number| number as i32)).collect::<Int32Array>();
    let days = numbers().map(|number| number.map(|number| number as i32)).collect::<Date32Array>();
    let times = numbers().map(|number| number.map(|number| number + 5)).collect::<Time64MicrosecondArray>();
    let moments = numbers().collect::<TimestampMicrosecondArray>().with_timezone("UTC");
    let truths = numbers().map(|number| number.map(|number| number > 0)).collect::<BooleanArray>();
    let singles = floats().map(|number| number.map(|number| number as f32)).collect::<Float32Array>();
    [
        ("short", Arc::new(shorts)),
        ("word", Arc::new(words)),
        ("day", Arc::new(days)),
        ("long", Arc::new(numbers().collect::<Int64Array>())),
        ("time", Arc::new(times)),
        ("moment", Arc::new(moments)),
        ("money", Arc::new(decimals(7, 2))),
        ("wide", Arc::new(decimals(30, 2))),
        ("text", Arc::new(texts.collect::<StringViewArray>())),
        ("truth", Arc::new(truths)),
        ("single", Arc::new(singles)),
        ("double", Arc::new(floats().collect::<Float64Array>())),
    ]
}

/// A value of the column's type.
fn literal(name: &str, value: i64) -> ScalarValue {
    match name {
        "short" => ScalarValue::Int16(Some(value as i16)),
        "word" => ScalarValue::Int32(Some(value as i32)),
        "day" => ScalarValue::Date32(Some(value as i32)),
        "long" | "row" => ScalarValue::Int64(Some(value)),
        "time" => ScalarValue::Time64Microsecond(Some(value)),
        "moment" => ScalarValue::TimestampMicrosecond(Some(value), Some("UTC".into())),
        "money" => ScalarValue::Decimal128(Some(value.into()), 7, 2),
        "wide" => ScalarValue::Decimal128(Some(value.into()), 30, 2),
        "text" => ScalarValue::Utf8View(Some(TEXTS[value.unsigned_abs() as usize % TEXTS.len()].into())),
        "single" => ScalarValue::Float32(Some(FLOATS[value.unsigned_abs() as usize % FLOATS.len()] as f32)),
        "double" => ScalarValue::Float64(Some(FLOATS[value.unsigned_abs() as usize % FLOATS.len()])),
        _ => ScalarValue::Boolean(Some(value > 0)),
    }
}

/// What DataFusion answers.
fn evaluated(predicate: &Arc<dyn PhysicalExpr>, rows: &RecordBatch) -> BooleanBuffer {
    let answers = predicate.evaluate(rows).and_then(|answers| answers.into_array(rows.num_rows()));
    let answers = answers.expect("it can be evaluated");
    where_true(as_boolean_array(&answers).expect("a condition is true or false"))
}

/// The same rows, with decimals of few digits as 64-bit integers.
fn with_narrow_decimals(rows: &RecordBatch) -> RecordBatch {
    let schema = rows.schema();
    let columns = schema.fields().iter().zip(rows.columns()).map(|(field, column)| {
        let column = match column.data_type() {
            DataType::Decimal128(precision @ ..=LONG_DIGITS, scale) => {
                cast(column, &DataType::Decimal64(*precision, *scale)).expect("they are small")
            }
            _ => Arc::clone(column),
        };
        (field.name().clone(), column, true)
    });
    RecordBatch::try_from_iter_with_nullable(columns).expect("the columns are of one length")
}

fn check(predicate: &Arc<dyn PhysicalExpr>, all: &RecordBatch) {
    let narrow = with_narrow_decimals(all);
    let of_narrow = Predicate::of(predicate, &narrow.schema()).unwrap_or_else(|| panic!("{predicate}"));
    assert_eq!(of_narrow.passing(&narrow, None), evaluated(predicate, all), "64-bit integers: {predicate}");
    let compiled = Predicate::of(predicate, &all.schema()).unwrap_or_else(|| panic!("{predicate}"));
    for rows in [all.clone(), all.slice(7, 100), all.slice(64, 64), all.slice(3, 0), all.slice(70, 1)] {
        let expected = evaluated(predicate, &rows);
        assert_eq!(compiled.passing(&rows, None), expected, "{predicate}");
        // Of a few rows, and of many.
        for step in [1, 3, 50] {
            let among: BooleanBuffer = (0..rows.num_rows()).map(|row| row % step == 0).collect();
            assert_eq!(compiled.passing(&rows, Some(&among)), &expected & &among, "{predicate}, {step}");
        }
    }
}

#[test]
fn comparisons_answer_as_datafusion_does_also_on_slices() {
    let all = rows(200);
    let schema = all.schema();
    for name in NUMBERS.into_iter().chain(["text", "row"]) {
        let column = || col(name, &schema).expect("there is the column");
        for operator in OPERATORS {
            if name == "text" && !matches!(operator, Operator::Eq | Operator::NotEq) {
                continue;
            }
            for value in [-6, -5, 0, 1, 2, 3, 4, 5, 6, 7] {
                let value = || lit(literal(name, value));
                check(&binary(column(), operator, value(), &schema).expect("types are the same"), &all);
                check(&binary(value(), operator, column(), &schema).expect("types are the same"), &all);
            }
        }
        check(&is_null(column()).expect("it can be asked"), &all);
        check(&is_not_null(column()).expect("it can be asked"), &all);
    }
    let truth = || col("truth", &schema).expect("there is the column");
    check(&truth(), &all);
    check(&not(truth()).expect("it can be asked"), &all);
}

#[test]
fn columns_are_compared_with_each_other_as_datafusion_does() {
    let all = rows(200);
    let schema = all.schema();
    for name in NUMBERS.into_iter().chain(["text"]) {
        let operators = if name == "text" { &OPERATORS[..2] } else { &OPERATORS[..] };
        for operator in operators.iter().copied() {
            let [one, other] = [name.to_owned(), format!("other {name}")]
                .map(|name| col(&name, &schema).expect("there is the column"));
            let is_of_columns = |predicate: &Arc<dyn PhysicalExpr>| {
                matches!(Predicate::of(predicate, &schema), Some(Predicate::Columns(_)))
            };
            let forth = binary(Arc::clone(&one), operator, Arc::clone(&other), &schema);
            let forth = forth.expect("types are the same");
            assert!(is_of_columns(&forth), "{forth}");
            check(&forth, &all);
            check(&binary(other, operator, one, &schema).expect("types are the same"), &all);
        }
    }
}

#[test]
fn bounds_at_the_ends_of_a_type_are_no_overflow() {
    let words: ArrayRef = Arc::new(Int32Array::from(vec![Some(i32::MIN), Some(0), None, Some(i32::MAX)]));
    let longs: ArrayRef = Arc::new(Int64Array::from(vec![Some(i64::MIN), Some(0), None, Some(i64::MAX)]));
    let most = 10_i128.pow(38) - 1;
    let wide = Decimal128Array::from(vec![Some(-most), Some(0), None, Some(most)]);
    let wide: ArrayRef = Arc::new(wide.with_precision_and_scale(38, 0).expect("they have 38 digits"));
    let columns = [("word", words, true), ("long", longs, true), ("wide", wide, true)];
    let all = RecordBatch::try_from_iter_with_nullable(columns).expect("the columns are alike");
    let schema = all.schema();
    let wide = |value| ScalarValue::Decimal128(Some(value), 38, 0);
    let literals = [
        ("word", [ScalarValue::from(i32::MIN), ScalarValue::from(i32::MAX)]),
        ("long", [ScalarValue::from(i64::MIN), ScalarValue::from(i64::MAX)]),
        ("wide", [wide(i128::MIN), wide(i128::MAX)]),
    ];
    for (name, values) in literals {
        for (value, operator) in values.iter().flat_map(|value| OPERATORS.map(|operator| (value, operator))) {
            let column = col(name, &schema).expect("there is the column");
            let predicate =
                binary(column, operator, lit(value.clone()), &schema).expect("types are the same");
            let compiled = Predicate::of(&predicate, &schema).expect("it is a comparison");
            assert_eq!(compiled.passing(&all, None), evaluated(&predicate, &all), "{predicate}");
        }
    }
}

/// Trees of AND, OR, lists and comparisons, however they are made.
#[test]
fn any_tree_of_comparisons_answers_as_datafusion_does() {
    let all = rows(200);
    let mut random = StdRng::seed_from_u64(7);
    for _ in 0..400 {
        let predicate = tree(&mut random, &all.schema(), 3);
        check(&predicate, &all);
    }
}

fn tree(random: &mut StdRng, schema: &Arc<Schema>, depth: usize) -> Arc<dyn PhysicalExpr> {
    if depth > 0 && random.random_bool(0.7) {
        let operator = if random.random_bool(0.5) { Operator::And } else { Operator::Or };
        let left = tree(random, schema, depth - 1);
        return binary(left, operator, tree(random, schema, depth - 1), schema).expect("both are conditions");
    }
    let names = ["short", "word", "money", "wide", "text", "truth", "row"];
    let name = names[random.random_range(0..names.len())];
    let column = col(name, schema).expect("there is the column");
    let value = |random: &mut StdRng| lit(literal(name, random.random_range(-6..7)));
    match random.random_range(0..5) {
        0 => is_null(column).expect("it can be asked"),
        _ if name == "truth" => column,
        4 if name != "row" => {
            let other = col(&format!("other {name}"), schema).expect("there is the column");
            let operators = if name == "text" { &OPERATORS[..2] } else { &OPERATORS[..] };
            let operator = operators[random.random_range(0..operators.len())];
            binary(column, operator, other, schema).expect("types are the same")
        }
        1 => {
            let members = (0..random.random_range(1..5)).map(|_| value(random)).collect();
            let is_negated = random.random_bool(0.3);
            in_list(column, members, &is_negated, schema).expect("types are the same")
        }
        _ => {
            let operators = if name == "text" { &OPERATORS[..2] } else { &OPERATORS[..] };
            let operator = operators[random.random_range(0..operators.len())];
            binary(column, operator, value(random), schema).expect("types are the same")
        }
    }
}

#[test]
fn what_is_no_comparison_with_a_constant_of_the_type_is_left_to_datafusion() {
    let all = rows(10);
    let schema = all.schema();
    let column = |name| col(name, &schema).expect("there is the column");
    let left = [
        Arc::new(BinaryExpr::new(column("long"), Operator::Eq, column("word"))) as Arc<dyn PhysicalExpr>,
        Arc::new(BinaryExpr::new(column("text"), Operator::LtEq, column("other text"))),
        Arc::new(BinaryExpr::new(column("money"), Operator::Lt, column("wide"))),
        Arc::new(BinaryExpr::new(column("long"), Operator::Eq, lit(ScalarValue::Int64(None)))),
        Arc::new(BinaryExpr::new(column("long"), Operator::Eq, lit(1_i32))),
        Arc::new(BinaryExpr::new(column("money"), Operator::Eq, lit(ScalarValue::Decimal128(Some(1), 7, 3)))),
        Arc::new(BinaryExpr::new(column("text"), Operator::Lt, lit(literal("text", 1)))),
        lit(true),
    ];
    for predicate in left {
        assert_eq!(Predicate::of(&predicate, &schema), None, "{predicate}");
    }
    let list = (0..9).map(|member| lit(literal("long", member))).collect();
    let list = in_list(column("long"), list, &false, &schema).expect("types are the same");
    assert_eq!(Predicate::of(&list, &schema), None);
    let list = vec![lit(literal("double", 0)), lit(literal("double", 2))];
    let list = in_list(column("double"), list, &false, &schema).expect("types are the same");
    assert_eq!(Predicate::of(&list, &schema), None);
}

/// A NULL of a dictionary may be among its values, and an array of nothing but NULLs marks none.
#[test]
fn nulls_that_an_array_does_not_mark_are_left_to_datafusion() {
    let texts = StringViewArray::from(vec![Some("a"), None]);
    let coded = DictionaryArray::new(Int32Array::from(vec![0, 1, 0]), Arc::new(texts));
    let columns: [(&str, ArrayRef, bool); 2] =
        [("coded", Arc::new(coded), true), ("nothing", Arc::new(NullArray::new(3)), true)];
    let all = RecordBatch::try_from_iter_with_nullable(columns).expect("the columns are of one length");
    let schema = all.schema();
    for (name, unknown) in [("coded", [false, true, false]), ("nothing", [true; 3])] {
        let column = || col(name, &schema).expect("there is the column");
        let asked = is_null(column()).expect("it can be asked");
        assert_eq!(evaluated(&asked, &all), BooleanBuffer::from(unknown.to_vec()));
        assert_eq!(Predicate::of(&asked, &schema), None);
        assert_eq!(Predicate::of(&is_not_null(column()).expect("it can be asked"), &schema), None);
        assert_eq!(Predicate::of(&column(), &schema), None, "it is no condition");
    }
}

#[test]
fn bounds_of_one_column_are_one_pass() {
    let all = rows(10);
    let schema = all.schema();
    let bound = |operator, value| {
        binary(col("long", &schema).expect("there is the column"), operator, lit(value), &schema)
            .expect("types are the same")
    };
    let both = binary(bound(Operator::GtEq, 2_i64), Operator::And, bound(Operator::Lt, 9_i64), &schema);
    let predicate = Predicate::of(&both.expect("both are conditions"), &schema);
    let expected =
        Comparison { column: 3, question: Question::Between(Width::Long, 2, 8), is_negated: false };
    assert_eq!(predicate, Some(Predicate::Column(expected)));
}

#[test]
fn long_chains_are_read_as_one_list() {
    let all = rows(200);
    let schema = all.schema();
    let is = |value: i64| {
        let column = col("long", &schema).expect("there is the column");
        binary(column, Operator::Eq, lit(value), &schema).expect("types are the same")
    };
    let chain = (0..3_000)
        .map(is)
        .reduce(|before, next| binary(before, Operator::Or, next, &schema).expect("both are conditions"));
    let predicate = Predicate::of(&chain.expect("there are some"), &schema).expect("all are comparisons");
    assert!(matches!(&predicate, Predicate::Any(parts) if parts.len() == 3_000));
    let at_least =
        binary(col("long", &schema).expect("there is the column"), Operator::GtEq, lit(0_i64), &schema);
    let expected = evaluated(&at_least.expect("types are the same"), &all);
    assert_eq!(predicate.passing(&all, None), expected);
}

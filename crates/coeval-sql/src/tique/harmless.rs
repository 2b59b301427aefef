// SPDX-License-Identifier: Apache-2.0
//! The functions that statements for a server may call: those that look at their arguments alone.
//!
//! Engines have others that read files, other tables, settings or the network with the rights of the server's login
//! (`pg_read_file`, `query_to_xml` and `lo_import` of PostgreSQL, `read_csv` and `getenv` of DuckDB, `load_extension` and
//! `readfile` of SQLite), or change state (`nextval`, `set_config`, `pg_sleep`). There is no end to such a list, so this one
//! is of those that are allowed. A query that calls another one runs in Coeval, if Coeval has it.

/// Functions that do the same harmless thing wherever they are: aggregates and windows, choices, numbers, texts, times.
const EVERYWHERE: &str = "
    array_agg avg bit_and bit_or bit_xor bool_and bool_or corr count covar_pop covar_samp cume_dist
    dense_rank every first_value grouping lag last_value lead max median min mode nth_value ntile
    percent_rank percentile_cont percentile_disc rank regr_avgx regr_avgy regr_count regr_intercept
    regr_r2 regr_slope regr_sxx regr_sxy regr_syy row_number stddev stddev_pop stddev_samp
    string_agg sum var_pop var_samp variance

    coalesce greatest ifnull least nullif nvl

    abs acos asin atan atan2 cbrt ceil ceiling cos cot degrees div exp factorial floor gcd lcm ln
    log log10 log2 mod pi pow power radians round sign sin sqrt tan trunc

    ascii bit_length btrim char_length character_length chr concat concat_ws initcap left length
    lower lpad ltrim md5 octet_length overlay position regexp_replace repeat replace reverse right
    rpad rtrim split_part starts_with strpos substr substring to_hex translate trim upper

    age current_date current_time current_timestamp date_part date_trunc extract localtime
    localtimestamp make_date make_interval make_time make_timestamp now to_char to_date to_number
    to_timestamp
";

/// More on DataFusion.
const DATAFUSION: &str = "
    approx_distinct approx_median approx_percentile_cont array_length array_to_string arrow_cast
    arrow_typeof cardinality date_bin encode decode ends_with from_unixtime instr isnan iszero
    levenshtein nanvl regexp_count regexp_like regexp_match sha224 sha256 sha384 sha512
    to_local_time to_unixtime
";

/// More on DuckDB.
const DUCKDB: &str = "
    any_value approx_count_distinct approx_quantile arg_max arg_min array_length array_to_string
    bit_count contains date_add date_diff date_sub datediff day dayname dayofweek dayofyear
    ends_with epoch epoch_ms first format group_concat hash hour instr isfinite isinf isnan jaccard
    kurtosis last last_day len levenshtein list list_contains mad max_by md5 min_by minute month
    monthname prefix printf product quantile quantile_cont quantile_disc quarter regexp_extract
    regexp_full_match regexp_matches second sha256 skewness strftime string_split strip_accents
    strptime suffix time_bucket typeof week year
";

/// More on MonetDB.
const MONETDB: &str = "
    charindex dayofmonth dayofweek dayofyear endswith hour insert listagg locate minute month
    patindex quantile quarter second splitpart startswith truncate week weekofyear year
";

/// More on PostgreSQL.
const POSTGRESQL: &str = "
    any_value array_length array_to_string bit_count cardinality clock_timestamp date_bin decode
    encode format isfinite json_agg json_array_length json_build_array json_build_object
    json_object_agg jsonb_agg jsonb_array_length jsonb_build_array jsonb_build_object
    jsonb_object_agg jsonb_typeof justify_days justify_hours justify_interval regexp_count
    regexp_instr regexp_like regexp_match regexp_split_to_array regexp_substr scale sha224 sha256
    sha384 sha512 statement_timestamp string_to_array to_json to_jsonb transaction_timestamp
    trim_scale unistr width_bucket
";

/// More on SQLite.
const SQLITE: &str = "
    char date datetime format glob group_concat hex iif instr json json_array json_array_length
    json_extract json_object json_type julianday like printf quote strftime time timediff total
    typeof unicode unixepoch
";

/// Whether a function of this name may be called on an engine of this kind.
pub(super) fn is_function(kind: &str, name: &str) -> bool {
    let own = match kind {
        "datafusion" => DATAFUSION,
        "duckdb" => DUCKDB,
        "monetdb" => MONETDB,
        "postgresql" => POSTGRESQL,
        "sqlite" => SQLITE,
        _ => "",
    };
    EVERYWHERE.split_whitespace().chain(own.split_whitespace()).any(|known| known == name)
}

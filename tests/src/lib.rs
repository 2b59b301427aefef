//! Tests across crates: SQL logic, isolation, crash, tidy.

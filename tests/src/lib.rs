// SPDX-License-Identifier: Apache-2.0
//! Tests across crates live in `tests/`; this library is empty.

// SPDX-License-Identifier: Apache-2.0
//! YCSB: reads, updates and inserts of records by key.

mod key_choice;

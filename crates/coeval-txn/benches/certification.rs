// SPDX-License-Identifier: Apache-2.0
//! Prints what the operations of certification cost, in nanoseconds.
fn main() {}

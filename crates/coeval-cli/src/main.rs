//! The binary `coeval`.
fn main() {}

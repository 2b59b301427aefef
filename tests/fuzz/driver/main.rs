// SPDX-License-Identifier: Apache-2.0
//! libFuzzer drives the target that `COEVAL_FUZZ_TARGET` names.
#![no_main]

use coeval_fuzz::{Target, target};
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("COEVAL_FUZZ_TARGET").expect("COEVAL_FUZZ_TARGET names a target");
    target(&name).expect("there is a target of this name")
});

fuzz_target!(|input: &[u8]| (TARGET.run)(input));

// SPDX-License-Identifier: Apache-2.0
//! Tests of serializability and safe snapshots: single rules here, named anomalies in [`anomalies`], all small
//! histories in [`enumeration`], large ones in [`samples`], with replicas behind each ([`replica`]), and each rule broken in
//! [`faults`]; with loads on many nodes beside them in [`ages`]. What is right is judged by [`history`], which knows neither versions nor rules.

mod ages;
mod anomalies;
mod boundary;
mod enumeration;
mod faults;
mod followed;
mod history;
mod memory;
mod pipeline;
mod replica;
mod samples;

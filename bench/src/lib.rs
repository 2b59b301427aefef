// SPDX-License-Identifier: Apache-2.0
//! Workloads: TPC-C, TPC-H, CH-benCHmark, YCSB, and the figures they report.

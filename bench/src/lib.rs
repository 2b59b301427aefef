//! Workloads: TPC-C, TPC-H, CH-benCHmark, YCSB, and the figures they report.

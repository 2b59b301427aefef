//! SQL on DataFusion: sessions, planning, DML, DDL, table providers and the point path.

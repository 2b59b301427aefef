//! A persistent, parallel, ordered map: the P-Tree.

// SPDX-License-Identifier: Apache-2.0
//! Words that many statements are made of: completed, and shown in another colour.

/// The words, in capitals.
const KEYWORDS: &str = "\
    ALL ALTER ANALYZE AND AS ASC BEGIN BETWEEN BY CASCADE CASE CAST CHECK CHECKPOINT COLUMN COMMIT CONFLICT CONSTRAINT \
    COPY COUNT CREATE CROSS DEFAULT DELETE DESC DISTINCT DO DROP ELSE END EXCEPT EXISTS EXPLAIN FOREIGN FROM FULL \
    GROUP HAVING IN INDEX INNER INSERT INTERSECT INTO IS ISOLATION JOIN KEY LEFT LEVEL LIKE LIMIT NOT NOTHING NULL \
    NULLS OFFSET ON ONLY OR ORDER OUTER OVER PARTITION PRIMARY READ REFERENCES RELEASE REPEATABLE RETURNING RIGHT \
    ROLLBACK SAVEPOINT SCHEMA SELECT SEQUENCE SET SHOW TABLE THEN TO TRANSACTION TRUNCATE UNION UNIQUE UPDATE USING \
    VALUES VIEW WHEN WHERE WITH";

/// All of them.
pub(super) fn keywords() -> impl Iterator<Item = &'static str> {
    KEYWORDS.split_whitespace()
}

/// Whether a word is one of them, in capitals or not.
pub(super) fn is_keyword(word: &str) -> bool {
    keywords().any(|keyword| keyword.eq_ignore_ascii_case(word))
}

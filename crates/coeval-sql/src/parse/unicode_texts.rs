// SPDX-License-Identifier: Apache-2.0
//! `U&'\0441'`, a text with letters by their numbers: the tokenizer reads it, and the planner does not know it. It is a text like any
//! other.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// Writes such texts as plain ones.
pub(super) fn spell_unicode_texts(tokens: &mut [TokenWithSpan]) {
    for token in tokens {
        if let Token::UnicodeStringLiteral(text) = &mut token.token {
            token.token = Token::SingleQuotedString(std::mem::take(text));
        }
    }
}

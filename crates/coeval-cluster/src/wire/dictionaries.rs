// SPDX-License-Identifier: Apache-2.0
//! What is said and logged of dictionaries.

use super::writer::{put_bytes, put_list, put_u64};
use super::{Malformed, Reader, Wire};
use crate::texts::RowTexts;
use coeval_txn::cluster::{
    Code, DictionaryBody, DictionaryId, DictionaryMessage, DictionaryRecord, GivenText, Member, Purpose,
    Spelling, ViewNumber,
};
use std::sync::Arc;

impl Wire for Arc<str> {
    fn put(&self, out: &mut Vec<u8>) {
        put_bytes(out, self.as_bytes());
    }

    fn take(from: &mut Reader) -> Result<Self, Malformed> {
        let bytes = from.bytes()?;
        let text = std::str::from_utf8(&bytes).map_err(|_| Malformed::Contradiction("a text is UTF-8"))?;
        Ok(Self::from(text))
    }
}

impl Wire for DictionaryId {
    fn put(&self, out: &mut Vec<u8>) {
        put_u64(out, self.table);
        put_u64(out, u64::from(self.column));
    }

    fn take(from: &mut Reader) -> Result<Self, Malformed> {
        Ok(Self { table: from.u64()?, column: from.u32()? })
    }
}

impl Wire for Code {
    fn put(&self, out: &mut Vec<u8>) {
        put_u64(out, u64::from(self.get()));
    }

    fn take(from: &mut Reader) -> Result<Self, Malformed> {
        from.u32().map(Self::new)
    }
}

/// One more than the code; 0 if there is none.
impl Wire for Option<Code> {
    fn put(&self, out: &mut Vec<u8>) {
        put_u64(out, self.map_or(0, |code| u64::from(code.get()) + 1));
    }

    fn take(from: &mut Reader) -> Result<Self, Malformed> {
        match from.u64()?.checked_sub(1) {
            None => Ok(None),
            Some(number) => {
                let number = u32::try_from(number).map_err(|_| Malformed::Range)?;
                Ok(Some(Code::new(number)))
            }
        }
    }
}

impl Wire for Spelling {
    fn put(&self, out: &mut Vec<u8>) {
        self.code.put(out);
        self.text.put(out);
    }

    fn take(from: &mut Reader) -> Result<Self, Malformed> {
        Ok(Self { code: Code::take(from)?, text: <Arc<str>>::take(from)? })
    }
}

impl Wire for RowTexts {
    fn put(&self, out: &mut Vec<u8>) {
        self.dictionary.put(out);
        put_list(out, &self.spellings);
    }

    fn take(from: &mut Reader) -> Result<Self, Malformed> {
        Ok(Self { dictionary: DictionaryId::take(from)?, spellings: from.list()? })
    }
}

impl Wire for GivenText {
    fn put(&self, out: &mut Vec<u8>) {
        self.text.put(out);
        self.layout.put(out);
    }

    fn take(from: &mut Reader) -> Result<Self, Malformed> {
        Ok(Self { text: <Arc<str>>::take(from)?, layout: ViewNumber::take(from)? })
    }
}

impl Wire for Purpose {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(match self {
            Self::Give => 0,
            Self::Find => 1,
        });
    }

    fn take(from: &mut Reader) -> Result<Self, Malformed> {
        match from.byte()? {
            0 => Ok(Self::Give),
            1 => Ok(Self::Find),
            kind => Err(Malformed::Kind { what: "purpose", kind }),
        }
    }
}

impl Wire for DictionaryMessage {
    fn put(&self, out: &mut Vec<u8>) {
        self.from.put(out);
        self.to.put(out);
        self.layout.put(out);
        self.dictionary.put(out);
        self.body.put(out);
    }

    fn take(from: &mut Reader) -> Result<Self, Malformed> {
        Ok(Self {
            from: Member::take(from)?,
            to: Member::take(from)?,
            layout: ViewNumber::take(from)?,
            dictionary: DictionaryId::take(from)?,
            body: DictionaryBody::take(from)?,
        })
    }
}

impl Wire for DictionaryBody {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Ask { number, purpose, texts } => {
                out.push(0);
                put_u64(out, *number);
                purpose.put(out);
                put_list(out, texts);
            }
            Self::Codes { number, codes } => {
                out.push(1);
                put_u64(out, *number);
                put_list(out, codes);
            }
            Self::Give { after, previous, texts, length } => {
                out.push(2);
                put_u64(out, u64::from(*after));
                // There is one if, and only if, something is before.
                if let Some(previous) = previous {
                    previous.put(out);
                }
                put_list(out, texts);
                put_u64(out, u64::from(*length));
            }
            Self::Logged { through } => {
                out.push(3);
                put_u64(out, u64::from(*through));
            }
            Self::Differs { after, have } => {
                out.push(4);
                put_u64(out, u64::from(*after));
                put_u64(out, u64::from(*have));
            }
        }
    }

    fn take(from: &mut Reader) -> Result<Self, Malformed> {
        match from.byte()? {
            0 => Ok(Self::Ask {
                number: from.u64()?,
                purpose: Purpose::take(from)?,
                texts: from.list::<Arc<str>>()?.into(),
            }),
            1 => Ok(Self::Codes { number: from.u64()?, codes: from.list()? }),
            2 => give(from),
            3 => Ok(Self::Logged { through: from.u32()? }),
            4 => {
                let (after, have) = (from.u32()?, from.u32()?);
                if have > after {
                    return Err(Malformed::Contradiction("who has what was given before has all of it"));
                }
                Ok(Self::Differs { after, have })
            }
            kind => Err(Malformed::Kind { what: "message about a dictionary", kind }),
        }
    }
}

/// A part of an owner's list.
fn give(from: &mut Reader) -> Result<DictionaryBody, Malformed> {
    let after = from.u32()?;
    let previous = if after > 0 { Some(ViewNumber::take(from)?) } else { None };
    let texts: Vec<GivenText> = from.list()?;
    let length = from.u32()?;
    let through = u32::try_from(texts.len()).ok().and_then(|count| after.checked_add(count));
    if through.is_none_or(|through| through > length) {
        return Err(Malformed::Contradiction("a part is not longer than the whole"));
    }
    Ok(DictionaryBody::Give { after, previous, texts, length })
}

impl Wire for DictionaryRecord {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Given { dictionary, after, texts } => {
                out.push(0);
                dictionary.put(out);
                put_u64(out, u64::from(*after));
                put_list(out, texts);
            }
            Self::Learned { dictionary, spellings } => {
                out.push(1);
                dictionary.put(out);
                put_list(out, spellings);
            }
        }
    }

    fn take(from: &mut Reader) -> Result<Self, Malformed> {
        match from.byte()? {
            0 => Ok(Self::Given {
                dictionary: DictionaryId::take(from)?,
                after: from.u32()?,
                texts: from.list()?,
            }),
            1 => Ok(Self::Learned { dictionary: DictionaryId::take(from)?, spellings: from.list()? }),
            kind => Err(Malformed::Kind { what: "record of a dictionary", kind }),
        }
    }
}

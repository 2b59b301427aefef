// SPDX-License-Identifier: Apache-2.0
//! The rows of the tables as they lie in the trees, without what the keys say.
//!
//! Money is in hundredths. Text with many values is in an arena, text with few is a code of a dictionary.

use crate::date::Date;
use crate::text::Text;

/// Order key and line number in one word, so that an entry of a line tree is half a cache line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LineKey(u32);

impl LineKey {
    /// Before all lines.
    pub(crate) const FIRST: Self = LineKey(0);
    /// Keys of orders are less than this.
    pub(crate) const ORDERS: u32 = (1 << 29) - 1;

    /// Before all lines of an order, and after all of the order before.
    #[inline]
    pub(crate) fn first(order: u32) -> Self {
        assert!(order <= Self::ORDERS, "an order's key has 29 bits");
        LineKey(order << 3)
    }

    /// The key of a line; an order has at most seven.
    pub(crate) fn new(order: u32, number: u32) -> Self {
        assert!(order < 1 << 29 && (1..=7).contains(&number), "a line key has 29 and 3 bits");
        LineKey(order << 3 | number)
    }

    /// The order's key.
    #[inline]
    pub(crate) fn order(self) -> u32 {
        self.0 >> 3
    }
}

/// A row of LINEITEM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) part: u32,
    pub(crate) supplier: u32,
    pub(crate) price: u32,
    pub(crate) comment: Text,
    pub(crate) ship: Date,
    pub(crate) commit: Date,
    pub(crate) receipt: Date,
    pub(crate) quantity: u8,
    /// In hundredths, like the tax.
    pub(crate) discount: u8,
    pub(crate) tax: u8,
    /// Return flag and status.
    pub(crate) state: LineState,
    /// Ship instruction and mode.
    pub(crate) handling: Handling,
}

const _: () = assert!(size_of::<(LineKey, Line)>() == 32);

impl Line {
    /// The price after discount, in ten-thousandths.
    #[inline]
    pub(crate) fn revenue(&self) -> i64 {
        i64::from(self.price) * (100 - i64::from(self.discount))
    }

    /// Whether it arrived later than promised; false if it did not arrive.
    #[inline]
    pub(crate) fn is_late(&self) -> bool {
        self.commit < self.receipt
    }
}

/// The return flag (`A`, `N`, `R`) and the status (`F`, `O`) of a line, in the order of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LineState(u8);

impl LineState {
    /// How many there can be.
    pub(crate) const COUNT: usize = 6;
    /// Ordered and not shipped.
    pub(crate) const OPEN: Self = LineState(3);

    /// The state of this flag and status.
    pub(crate) fn new(flag: &str, status: &str) -> Self {
        let flag = ["A", "N", "R"].iter().position(|other| *other == flag).expect("a return flag");
        LineState(2 * flag as u8 + u8::from(status == "O"))
    }

    /// Its place among all states.
    #[inline]
    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }

    /// Whether the goods came back.
    #[inline]
    pub(crate) fn is_returned(self) -> bool {
        self.0 / 2 == 2
    }

    /// Flag and status of the state at this place.
    pub(crate) fn names(index: usize) -> (&'static str, &'static str) {
        (["A", "N", "R"][index / 2], ["F", "O"][index % 2])
    }

    /// The same flag, and the status of what is shipped.
    pub(crate) fn shipped(self) -> Self {
        LineState(self.0 & !1)
    }
}

/// The codes of a line's ship instruction (of 4) and mode (of 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handling(u8);

impl Handling {
    /// Both codes in one byte.
    pub(crate) fn new(instruction: u8, mode: u8) -> Self {
        assert!(mode < 8, "three bits for the mode");
        Handling(instruction << 3 | mode)
    }

    /// The instruction's code.
    #[inline]
    pub(crate) fn instruction(self) -> u8 {
        self.0 >> 3
    }

    /// The mode's code.
    #[inline]
    pub(crate) fn mode(self) -> u8 {
        self.0 & 7
    }
}

/// A row of ORDERS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) customer: u32,
    pub(crate) price: u32,
    pub(crate) comment: Text,
    pub(crate) date: Date,
    pub(crate) clerk: u16,
    pub(crate) priority: u8,
    pub(crate) status: OrderStatus,
    pub(crate) ship_priority: u8,
}

/// How much of an order is shipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OrderStatus {
    /// Nothing.
    Open,
    /// Some of it.
    Partial,
    /// All.
    Filled,
}

/// A row of CUSTOMER.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Customer {
    pub(crate) balance: i64,
    pub(crate) name: Text,
    pub(crate) address: Text,
    pub(crate) comment: Text,
    pub(crate) phone: Phone,
    pub(crate) nation: u8,
    pub(crate) segment: u8,
}

/// A telephone number; the first two characters are the country's code.
pub(crate) type Phone = [u8; 15];

/// A row of SUPPLIER.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Supplier {
    pub(crate) balance: i64,
    pub(crate) name: Text,
    pub(crate) address: Text,
    pub(crate) comment: Text,
    pub(crate) phone: Phone,
    pub(crate) nation: u8,
}

/// A row of PART.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) price: u32,
    pub(crate) name: Text,
    pub(crate) comment: Text,
    pub(crate) maker: u8,
    pub(crate) brand: u8,
    pub(crate) kind: u8,
    pub(crate) size: u8,
    pub(crate) container: u8,
}

/// A row of PARTSUPP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PartSupp {
    pub(crate) available: i32,
    pub(crate) cost: u32,
    pub(crate) comment: Text,
}

/// A row of NATION.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Nation {
    pub(crate) name: &'static str,
    pub(crate) region: u8,
}

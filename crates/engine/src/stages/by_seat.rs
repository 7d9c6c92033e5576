//! [`BySeat`]: a table with one value for each component of a chain.

use router::{Chain, Seat};

/// One value for each component, by seat. The outer pipe has no value.
#[derive(Debug)]
pub(super) struct BySeat<T>(Vec<T>);

impl<T: Default> BySeat<T> {
    pub(super) fn new(count: usize) -> BySeat<T> {
        BySeat(std::iter::repeat_with(T::default).take(count).collect())
    }

    /// Adds values for new seats, and resets those of the seats in `filled`, which get another component.
    pub(super) fn fill(&mut self, count: usize, filled: &[Seat]) {
        self.0.resize_with(count, T::default);
        for seat in filled {
            if let Some(value) = self.get_mut(*seat) {
                *value = T::default();
            }
        }
    }
}

impl<T> BySeat<T> {
    /// The value of a component. `None` for the outer pipe.
    pub(super) fn get(&self, seat: Seat) -> Option<&T> {
        self.0.get(seat.index().checked_sub(1)?)
    }

    pub(super) fn get_mut(&mut self, seat: Seat) -> Option<&mut T> {
        self.0.get_mut(seat.index().checked_sub(1)?)
    }

    /// All values, in no particular order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.0.iter_mut()
    }

    /// The values of these seats.
    pub(super) fn of<'a>(&'a self, seats: &'a [Seat]) -> impl Iterator<Item = &'a T> {
        seats.iter().filter_map(|seat| self.get(*seat))
    }

    /// The values of the components in the order of the chain.
    pub(super) fn in_order<'a>(&'a self, chain: &'a Chain) -> impl Iterator<Item = &'a T> {
        self.of(&chain.order)
    }
}

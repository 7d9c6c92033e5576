//! [`BySeat`]: a table with one value for each component of a chain.

use std::ops::Range;

use router::Seat;

/// One value for each component, by seat. The outer pipe has no value.
#[derive(Debug)]
pub(super) struct BySeat<T>(Vec<T>);

impl<T: Default> BySeat<T> {
    pub(super) fn new(count: usize) -> BySeat<T> {
        BySeat(std::iter::repeat_with(T::default).take(count).collect())
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

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.0.iter_mut()
    }

    /// The values of the components between the editor and this seat. For the outer pipe, these are all values: in
    /// proxy mode, the outer pipe also follows the last component.
    pub(super) fn before(&self, seat: Seat) -> &[T] {
        &self.0[self.range_before(seat)]
    }

    pub(super) fn before_mut(&mut self, seat: Seat) -> &mut [T] {
        let range = self.range_before(seat);
        &mut self.0[range]
    }

    /// The values of the components between this seat and the agent.
    pub(super) fn behind(&self, seat: Seat) -> &[T] {
        &self.0[seat.index()..]
    }

    fn range_before(&self, seat: Seat) -> Range<usize> {
        0..seat.index().checked_sub(1).unwrap_or(self.0.len())
    }
}

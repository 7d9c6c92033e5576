use router::{Seat, Time};

use super::{Exchange, Step};

impl Exchange {
    pub fn parted(&mut self, _now: Time, seat: Seat, _steps: &mut Vec<Step>) {
        self.left(seat);
    }
    pub fn returned(&mut self, _now: Time, _seat: Seat, _steps: &mut Vec<Step>) {}
    pub fn bypassed(&mut self, _now: Time, seat: Seat, _steps: &mut Vec<Step>) {
        self.left(seat);
    }
}

//! Where lines are written to.

use bytes::Bytes;

use crate::message::make_room;

/// A payload of this length or more need not be copied.
pub(crate) const LONG: usize = 32 * 1024;

/// A buffer for lines, in the order in which they are written to it. A plain buffer is one. A queue that can hold
/// on to a payload, instead of copying it, saves time where payloads are long.
pub trait Sink {
    /// The end of the buffer, to which short pieces are appended.
    fn short(&mut self) -> &mut Vec<u8>;

    /// Appends a long piece.
    fn long(&mut self, piece: &Bytes) {
        let out = self.short();
        make_room(piece.len(), out);
        out.extend_from_slice(piece);
    }
}

impl Sink for Vec<u8> {
    fn short(&mut self) -> &mut Vec<u8> {
        self
    }
}

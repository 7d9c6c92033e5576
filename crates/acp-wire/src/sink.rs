//! The output to which lines are written.

use bytes::Bytes;

use crate::message::make_room;

/// A payload of at least this length is passed to [`Sink::append_long`].
pub(crate) const LONG_THRESHOLD: usize = 32 * 1024;

/// The output to which lines are written. `Vec<u8>` is one. A queue that can store a long payload without
/// copying it implements [`long`](Sink::append_long).
pub trait Sink {
    /// The end of the buffer, to which short pieces are appended.
    fn buffer(&mut self) -> &mut Vec<u8>;

    /// Appends a long piece. The default copies it.
    fn append_long(&mut self, piece: &Bytes) {
        let out = self.buffer();
        make_room(piece.len(), out);
        out.extend_from_slice(piece);
    }
}

impl Sink for Vec<u8> {
    fn buffer(&mut self) -> &mut Vec<u8> {
        self
    }
}

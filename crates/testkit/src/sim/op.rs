//! The steps of a schedule.

/// One step. Each byte selects one of the possible choices, modulo their number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// One line is delivered, from one of the pipes that have any.
    Move(u8),
    /// A participant sends a request to its neighbour on one side.
    Request(u8, u8),
    /// A participant sends a notification to its neighbour on one side.
    Notify(u8, u8),
    /// A participant answers one of its unanswered requests.
    Answer(u8, u8),
    /// A participant cancels a request: its own, or one that it has received, as a confused proxy does.
    Cancel(u8, u8),
    /// A participant sends an answer to a request that is not open.
    Stray(u8, u8),
    /// The participant at the outer pipe sends `initialize`, for the first time or again.
    Initialize,
    /// A proxy sends `initialize` to its successor without having received one.
    Reinitialize(u8),
    /// Time passes, up to the next deadline.
    Wait(u8),
    /// A participant exits or closes one of its pipes.
    Exit(u8, u8),
    /// The outermost conductor receives the command to stop.
    Stop,
}

impl Op {
    /// The step that three bytes describe. Half of all values are [`Op::Move`].
    pub fn decode([kind, index, what]: [u8; 3]) -> Op {
        match kind {
            0..130 => Op::Move(index),
            130..165 => Op::Request(index, what),
            165..200 => Op::Notify(index, what),
            200..229 => Op::Answer(index, what),
            229..241 => Op::Cancel(index, what),
            241..245 => Op::Stray(index, what),
            245..247 => Op::Initialize,
            247..249 => Op::Reinitialize(index),
            249..251 => Op::Wait(index),
            251..255 => Op::Exit(index, what),
            255 => Op::Stop,
        }
    }

    /// Whether messages may be lost after this step.
    pub fn disturbs(self) -> bool {
        matches!(self, Op::Exit(..) | Op::Stop)
    }
}

/// A deterministic generator of pseudo-random numbers (splitmix64).
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    /// A generator with this seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ (x >> 31)
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.draw() % limit.max(1) as u64) as usize
    }

    /// A byte.
    pub fn byte(&mut self) -> u8 {
        self.draw() as u8
    }

    /// True with a probability of one in `times`.
    pub fn chance(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }
}

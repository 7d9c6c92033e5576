//! What can happen in a schedule.

/// One step. The bytes are choices among what there is, taken modulo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// One line moves on, on one of the links that have any.
    Move(u8),
    /// A player asks its neighbour on one side.
    Ask(u8, u8),
    Note(u8, u8),
    /// A player answers one of the questions it was asked.
    Answer(u8, u8),
    /// A player cancels a question: its own, or one that it was asked, as confused proxies do.
    Cancel(u8, u8),
    /// A player answers what it was not asked.
    Stray(u8, u8),
    /// The one at the outer pipe greets the chain, for the first time or again.
    Initialize,
    /// A proxy greets its successor unbidden.
    Regreet(u8),
    /// Time passes, up to the next deadline.
    Wait(u8),
    Die(u8, u8),
    Stop,
}

impl Op {
    pub fn decode([kind, who, what]: [u8; 3]) -> Op {
        match kind {
            0..130 => Op::Move(who),
            130..165 => Op::Ask(who, what),
            165..200 => Op::Note(who, what),
            200..229 => Op::Answer(who, what),
            229..241 => Op::Cancel(who, what),
            241..245 => Op::Stray(who, what),
            245..247 => Op::Initialize,
            247..249 => Op::Regreet(who),
            249..251 => Op::Wait(who),
            251..255 => Op::Die(who, what),
            255 => Op::Stop,
        }
    }

    /// After this, not everything that is said need arrive.
    pub fn disturbs(self) -> bool {
        matches!(self, Op::Die(..) | Op::Stop)
    }
}

/// Numbers that look random and are the same every time (splitmix64).
#[derive(Debug)]
pub struct Random(u64);

impl Random {
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

    pub fn below(&mut self, limit: usize) -> usize {
        (self.draw() % limit.max(1) as u64) as usize
    }

    pub fn byte(&mut self) -> u8 {
        self.draw() as u8
    }

    /// True once in so many times.
    pub fn chance(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }
}

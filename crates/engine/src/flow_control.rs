//! Flow control: which links are paused.
//!
//! Each link has a queue of bytes that its peer has not read yet. When a queue is *full*, the links that feed it (its
//! neighbours in the chain) are paused until it has drained. So a slow reader slows its writers, and memory stays
//! bounded.
//!
//! That alone can deadlock: a component that does not read while it writes waits for the conductor, and the conductor
//! waits for it. So a full queue justifies a pause only if its peer is able to read, which means that the peer has no
//! unread output. When a cycle of peers wait for each other, the peer that feeds the shortest queue is read
//! anyway, up to a hard cap.

/// The queue sizes at which flow control acts, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watermarks {
    /// A queue that exceeds this is full.
    pub high: usize,
    /// A full queue stays full until it has drained below this.
    pub low: usize,
    /// How far a queue may grow to resolve a deadlock. A single message may exceed it.
    pub cap: usize,
    /// MCP clients are not read while more than this is queued for any peer.
    pub mcp: usize,
}

impl Watermarks {
    /// The watermarks of the conductor. Tests use smaller ones.
    pub const DEFAULT: Watermarks = Watermarks {
        high: 1024 * 1024,
        low: 256 * 1024,
        cap: 256 * 1024 * 1024,
        mcp: 64 * 1024 * 1024,
    };
}

/// What flow control needs to know about the link of a peer.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LinkLoad {
    /// How many bytes are queued for the peer.
    pub queued: usize,
    /// Whether the queue is full: it exceeded the high watermark and has not drained below the low one.
    pub full: bool,
    /// Whether the peer has unread output.
    pub unread: bool,
    /// Whether a command holds the messages for the peer. Then the peer does not cause the full queue.
    pub gate_closed: bool,
}

/// What to do with the links.
#[derive(Debug, PartialEq)]
pub(crate) struct FlowDecision {
    /// For each link, whether it is paused.
    pub paused: Vec<bool>,
    /// The index of a peer that has stopped reading: all peers wait for each other, and no queue may grow.
    pub stuck: Option<usize>,
}

/// Decides which links of a chain are paused. Index 0 is the editor. In a `ring`, the last link is a neighbour of the
/// first. `cap` is [`Watermarks::cap`].
pub(crate) fn decide(loads: &[LinkLoad], ring: bool, cap: usize) -> FlowDecision {
    let count = loads.len();
    let neighbours = |x: usize| {
        let before = if x > 0 { Some(x - 1) } else { ring.then(|| count - 1) };
        let after = if x + 1 < count { Some(x + 1) } else { ring.then_some(0) };
        [before, after].into_iter().flatten()
    };
    let full_neighbours = |x: usize| neighbours(x).filter(|&y| loads[y].full);
    let mut paused: Vec<bool> = (0..count).map(|x| full_neighbours(x).next().is_some()).collect();

    // A full queue justifies a pause if its peer is able to read, or waits for such a peer. The outer conductor
    // always counts as able to read: it resolves its own deadlocks.
    let can_read =
        |y: usize| (ring && y == 0) || loads[y].gate_closed || !(paused[y] && loads[y].unread);
    let mut justified: Vec<bool> = (0..count).map(|y| loads[y].full && can_read(y)).collect();
    for _ in 0..count {
        for x in 0..count {
            justified[x] |= loads[x].full && full_neighbours(x).any(|y| justified[y]);
        }
    }
    let in_deadlock = |x: &usize| paused[*x] && full_neighbours(*x).all(|y| !justified[y]);
    let fed_queue = |x: usize| full_neighbours(x).map(|y| loads[y].queued).max().unwrap_or(0);
    // A peer whose own queue is not full only waits for the deadlock. Reading from it would resolve nothing.
    let can_resolve = |x: &usize| loads[*x].unread && loads[*x].full;
    let deadlock: Vec<usize> = (0..count).filter(in_deadlock).filter(can_resolve).collect();
    let mut stuck = None;
    if let Some(&x) = deadlock.iter().min_by_key(|&&x| fed_queue(x)) {
        if fed_queue(x) < cap {
            paused[x] = false;
        } else {
            // All of these queues are full. The editor is never considered stuck.
            stuck = full_neighbours(x).chain(deadlock.iter().copied()).find(|&y| y > 0);
        }
    }
    FlowDecision { paused, stuck }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HIGH: usize = Watermarks::DEFAULT.high;
    const CAP: usize = Watermarks::DEFAULT.cap;

    const IDLE: LinkLoad = LinkLoad { queued: 0, full: false, unread: false, gate_closed: false };
    const SENDS: LinkLoad = LinkLoad { queued: 0, full: false, unread: true, gate_closed: false };
    const STALLS: LinkLoad =
        LinkLoad { queued: 2 * HIGH, full: true, unread: false, gate_closed: false };
    const FLOODS: LinkLoad =
        LinkLoad { queued: 2 * HIGH, full: true, unread: true, gate_closed: false };

    fn paused(loads: &[LinkLoad]) -> Vec<usize> {
        let decision = decide(loads, false, CAP);
        assert_eq!(decision.stuck, None);
        (0..loads.len()).filter(|&x| decision.paused[x]).collect()
    }

    #[test]
    fn no_link_is_paused_while_no_queue_is_full() {
        assert!(paused(&[IDLE, SENDS, SENDS]).is_empty());
    }

    #[test]
    fn the_neighbours_of_a_stalled_reader_are_paused() {
        assert_eq!(paused(&[STALLS, SENDS]), [1]);
        assert_eq!(paused(&[SENDS, STALLS]), [0]);
        assert_eq!(paused(&[IDLE, SENDS, STALLS, SENDS]), [1, 3]);
    }

    #[test]
    fn a_stalled_reader_pauses_the_whole_chain_if_the_other_queues_fill_up() {
        // The editor does not read. So proxy 1 is paused and stops reading, and then proxy 2 is paused.
        assert_eq!(paused(&[STALLS, FLOODS, SENDS]), [0, 1, 2]);
        assert_eq!(paused(&[STALLS, FLOODS, FLOODS, SENDS]), [0, 1, 2, 3]);
    }

    #[test]
    fn two_peers_that_flood_each_other_do_not_deadlock() {
        assert_eq!(paused(&[FLOODS, FLOODS]).len(), 1);
        let more = LinkLoad { queued: 3 * HIGH, ..FLOODS };
        assert_eq!(paused(&[FLOODS, more]), [0], "the queue of the editor is shorter, so it grows");
        assert_eq!(paused(&[more, FLOODS]), [1]);
        assert_eq!(paused(&[FLOODS, more, FLOODS]).len(), 2);
    }

    #[test]
    fn a_peer_outside_the_deadlock_stays_paused() {
        // Two proxies wait for each other. The editor waits for the first of them.
        assert_eq!(paused(&[SENDS, FLOODS, FLOODS, IDLE]), [0, 2, 3]);
        assert_eq!(paused(&[IDLE, FLOODS, FLOODS, SENDS]), [0, 2, 3]);
    }

    #[test]
    fn a_deadlock_at_the_cap_makes_a_component_stuck() {
        let at_cap = LinkLoad { queued: CAP, ..FLOODS };
        assert_eq!(decide(&[at_cap, at_cap], false, CAP).stuck, Some(1));
        // The editor is never stuck, however long its queue is.
        let more = LinkLoad { queued: CAP + 1, ..FLOODS };
        assert_eq!(decide(&[more, at_cap], false, CAP).stuck, Some(1));
        assert_eq!(decide(&[at_cap, more], false, CAP).stuck, Some(1));
        assert_eq!(decide(&[STALLS, at_cap], false, CAP).stuck, None);
    }

    #[test]
    fn in_proxy_mode_the_first_and_the_last_link_are_neighbours() {
        let decision = decide(&[STALLS, SENDS, SENDS], true, CAP);
        assert_eq!(decision.paused, [false, true, true]);
    }

    #[test]
    fn the_outer_conductor_counts_as_able_to_read() {
        // It sends messages of the agent, and does not read messages for the editor, on the same pipe. So the
        // editor has stalled, and there is no deadlock.
        assert_eq!(decide(&[FLOODS, FLOODS], true, CAP).paused, [true, true]);
        assert_eq!(decide(&[FLOODS], true, CAP).paused, [true]);
    }

    #[test]
    fn a_closed_gate_makes_no_component_stuck() {
        let closed = LinkLoad { queued: CAP, full: true, unread: true, gate_closed: true };
        let loads = [FLOODS, closed, FLOODS];
        let decision = decide(&loads, false, CAP);
        assert_eq!(decision, FlowDecision { paused: vec![true; 3], stuck: None });
        let open = loads.map(|load| LinkLoad { gate_closed: false, ..load });
        assert_ne!(decide(&open, false, CAP), decision);
    }
}

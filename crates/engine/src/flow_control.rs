//! Flow control: who may not be read for now. Pure, so that it can be tested without pipes.
//!
//! Each link has a queue of bytes that its peer has yet to read. When one is *full*, those who feed
//! it (its neighbours in the chain) are not listened to until it has drained, so a slow reader slows
//! its writer, and memory stays bounded.
//!
//! That alone can lock up: a component that writes until it is read, and reads nothing meanwhile,
//! waits for us while we wait for it. So a link counts as an excuse to wait only if its peer is free
//! to read: nothing that it sent is waiting for us. When everybody in a circle waits for somebody
//! in the circle, the one that feeds the shortest queue is listened to all the same, up to a hard
//! cap.

/// The sizes of a queue that matter, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watermarks {
    /// A queue above this is full.
    pub high: usize,
    /// A full queue is full until it is below this.
    pub low: usize,
    /// No queue is let grow beyond this (unless by a single message) to break a circle.
    pub cap: usize,
    /// While more than this waits for a component, MCP clients are not listened to.
    pub mcp: usize,
}

impl Watermarks {
    /// Those of every chain. Tests have smaller ones.
    pub const DEFAULT: Watermarks = Watermarks {
        high: 1024 * 1024,
        low: 256 * 1024,
        cap: 256 * 1024 * 1024,
        mcp: 64 * 1024 * 1024,
    };
}

/// What flow control needs to know of a link.
#[derive(Debug, Clone, Copy, Default)]
pub struct LinkLoad {
    /// Bytes that wait to be read by the peer.
    pub queued: usize,
    /// The queue went over the high mark and is not yet under the low one.
    pub full: bool,
    /// The peer sent something that waits for us.
    pub pending: bool,
    /// A command holds what is for the peer, so it is no fault of the peer that the queue is full.
    pub closed: bool,
}

/// What to do with the links, by index.
#[derive(Debug, PartialEq)]
pub struct FlowDecision {
    /// Do not listen to these.
    pub paused: Vec<bool>,
    /// Everybody waits and no queue may grow: this peer has stopped reading for good.
    pub stuck: Option<usize>,
}

/// Decides for a chain whose links are numbered from the editor; in a `ring` the last one is a
/// neighbour of the first. No queue is let grow beyond `cap` to break a circle.
pub fn decide(loads: &[LinkLoad], ring: bool, cap: usize) -> FlowDecision {
    let count = loads.len();
    let neighbours = |x: usize| {
        let before = if x > 0 { Some(x - 1) } else { ring.then(|| count - 1) };
        let after = if x + 1 < count { Some(x + 1) } else { ring.then_some(0) };
        [before, after].into_iter().flatten()
    };
    let full_neighbours = |x: usize| neighbours(x).filter(|&y| loads[y].full);
    let mut paused: Vec<bool> = (0..count).map(|x| full_neighbours(x).next().is_some()).collect();

    // A full queue whose peer is free to read is a reason to wait, for all who lead to it. The
    // conductor above always is: it has its own reasons not to read, and breaks its own circles.
    let free = |y: usize| (ring && y == 0) || loads[y].closed || !(paused[y] && loads[y].pending);
    let mut justified: Vec<bool> = (0..count).map(|y| loads[y].full && free(y)).collect();
    for _ in 0..count {
        for x in 0..count {
            justified[x] |= loads[x].full && full_neighbours(x).any(|y| justified[y]);
        }
    }
    let in_a_circle = |x: &usize| paused[*x] && full_neighbours(*x).all(|y| !justified[y]);
    let feeds = |x: usize| full_neighbours(x).map(|y| loads[y].queued).max().unwrap_or(0);
    // Who has nothing to read itself only leads to the circle: listening to it would relieve nobody.
    let relieves = |x: &usize| loads[*x].pending && loads[*x].full;
    let circle: Vec<usize> = (0..count).filter(in_a_circle).filter(relieves).collect();
    let mut stuck = None;
    if let Some(&x) = circle.iter().min_by_key(|&&x| feeds(x)) {
        if feeds(x) < cap {
            paused[x] = false;
        } else {
            // The editor is never given up, a component that does not read is. All of these queues are full.
            stuck = full_neighbours(x).chain(circle.iter().copied()).find(|&y| y > 0);
        }
    }
    FlowDecision { paused, stuck }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HIGH: usize = Watermarks::DEFAULT.high;
    const CAP: usize = Watermarks::DEFAULT.cap;

    const IDLE: LinkLoad = LinkLoad { queued: 0, full: false, pending: false, closed: false };
    const SENDS: LinkLoad = LinkLoad { queued: 0, full: false, pending: true, closed: false };
    const STALLS: LinkLoad =
        LinkLoad { queued: 2 * HIGH, full: true, pending: false, closed: false };
    const FLOODS: LinkLoad =
        LinkLoad { queued: 2 * HIGH, full: true, pending: true, closed: false };

    fn paused(loads: &[LinkLoad]) -> Vec<usize> {
        let verdict = decide(loads, false, CAP);
        assert_eq!(verdict.stuck, None);
        (0..loads.len()).filter(|&x| verdict.paused[x]).collect()
    }

    #[test]
    fn nobody_waits_in_a_chain_that_flows() {
        assert!(paused(&[IDLE, SENDS, SENDS]).is_empty());
    }

    #[test]
    fn who_feeds_a_stalled_reader_waits() {
        assert_eq!(paused(&[STALLS, SENDS]), [1]);
        assert_eq!(paused(&[SENDS, STALLS]), [0]);
        assert_eq!(paused(&[IDLE, SENDS, STALLS, SENDS]), [1, 3]);
    }

    #[test]
    fn a_stall_spreads_through_those_it_holds_up_and_stays_a_stall() {
        // The editor does not read; so proxy 1 is not read and stops reading; so proxy 2 waits, …
        assert_eq!(paused(&[STALLS, FLOODS, SENDS]), [0, 1, 2]);
        assert_eq!(paused(&[STALLS, FLOODS, FLOODS, SENDS]), [0, 1, 2, 3]);
    }

    #[test]
    fn two_that_flood_each_other_are_not_left_waiting() {
        assert_eq!(paused(&[FLOODS, FLOODS]).len(), 1);
        let more = LinkLoad { queued: 3 * HIGH, ..FLOODS };
        assert_eq!(paused(&[FLOODS, more]), [0], "the shorter queue, the editor's, grows");
        assert_eq!(paused(&[more, FLOODS]), [1]);
        assert_eq!(paused(&[FLOODS, more, FLOODS]).len(), 2);
    }

    #[test]
    fn who_only_feeds_a_circle_goes_on_waiting() {
        // Two proxies wait for each other, the editor for the first of them.
        assert_eq!(paused(&[SENDS, FLOODS, FLOODS, IDLE]), [0, 2, 3]);
        assert_eq!(paused(&[IDLE, FLOODS, FLOODS, SENDS]), [0, 2, 3]);
    }

    #[test]
    fn a_circle_that_reaches_the_cap_ends_with_a_component_given_up() {
        let at_cap = LinkLoad { queued: CAP, ..FLOODS };
        assert_eq!(decide(&[at_cap, at_cap], false, CAP).stuck, Some(1));
        // Whatever waits for the editor, it is never given up.
        let more = LinkLoad { queued: CAP + 1, ..FLOODS };
        assert_eq!(decide(&[more, at_cap], false, CAP).stuck, Some(1));
        assert_eq!(decide(&[at_cap, more], false, CAP).stuck, Some(1));
        assert_eq!(decide(&[STALLS, at_cap], false, CAP).stuck, None);
    }

    #[test]
    fn in_proxy_mode_the_ends_are_neighbours() {
        let verdict = decide(&[STALLS, SENDS, SENDS], true, CAP);
        assert_eq!(verdict.paused, [false, true, true]);
    }

    #[test]
    fn the_conductor_above_is_waited_for() {
        // Through one pipe it sends what comes from the agent and does not read what is for the
        // editor: that is the editor's stall and no circle.
        assert_eq!(decide(&[FLOODS, FLOODS], true, CAP).paused, [true, true]);
        assert_eq!(decide(&[FLOODS], true, CAP).paused, [true]);
    }

    /// Messages that a command holds are no reason to read more of them, or to give a component up.
    #[test]
    fn nobody_is_stuck_because_of_a_closed_gate() {
        let closed = LinkLoad { queued: CAP, full: true, pending: true, closed: true };
        let loads = [FLOODS, closed, FLOODS];
        let verdict = decide(&loads, false, CAP);
        assert_eq!(verdict, FlowDecision { paused: vec![true; 3], stuck: None });
        let open = loads.map(|load| LinkLoad { closed: false, ..load });
        assert_ne!(decide(&open, false, CAP), verdict);
    }
}

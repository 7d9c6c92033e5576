//! Limits connections that have not authenticated yet.
//!
//! Every user of the machine can connect to a listener on loopback. So connections that have not authenticated
//! are limited in number and time. If there are too many, the oldest is closed. Connections of the user who runs
//! the conductor have separate slots, which other users cannot exhaust.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::Notify;

/// The time that a connection has to authenticate.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(5);

/// The number of slots for the same user, and for other users. An agent may start many MCP clients at once.
const MAX_CONNECTIONS: usize = 64;

/// From this number of connections on, the user of a new connection is determined.
const CROWDED: usize = 16;

/// The unauthenticated connections of one listener.
#[derive(Debug, Clone, Default)]
pub(crate) struct Unauthenticated {
    same_user: Slots,
    others: Slots,
}

/// The slots of a group of connections, oldest first.
#[derive(Debug, Clone, Default)]
struct Slots(Arc<Mutex<VecDeque<Arc<Notify>>>>);

/// The slot of one connection. Dropping it releases the slot.
#[derive(Debug)]
pub(crate) struct Slot {
    slots: Slots,
    /// Notified when the slot is needed for another connection.
    evicted: Arc<Notify>,
}

impl Unauthenticated {
    /// Reserves a slot for a TCP connection.
    pub(crate) async fn add(&self, stream: &TcpStream) -> Slot {
        let crowded = self.others.lock().len() >= CROWDED;
        let same_user = crowded && is_same_user(stream).await;
        if same_user { self.add_same_user() } else { self.others.add() }
    }

    /// Reserves a slot for a connection of the user who runs the conductor.
    pub(crate) fn add_same_user(&self) -> Slot {
        self.same_user.add()
    }
}

impl Slots {
    fn add(&self) -> Slot {
        let evicted = Arc::new(Notify::new());
        let mut slots = self.lock();
        if slots.len() >= MAX_CONNECTIONS
            && let Some(oldest) = slots.pop_front()
        {
            oldest.notify_one();
        }
        slots.push_back(evicted.clone());
        drop(slots);
        Slot { slots: self.clone(), evicted }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Arc<Notify>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    /// Waits for the authentication of the connection. Returns `None` after the timeout, or if the slot is needed
    /// for another connection.
    pub(crate) async fn authenticate<T>(self, proof: impl Future<Output = Option<T>>) -> Option<T> {
        tokio::select! {
            // A completed authentication counts, even if the slot is needed at the same moment.
            biased;
            proof = tokio::time::timeout(TIMEOUT, proof) => proof.ok().flatten(),
            () = self.evicted.notified() => None,
        }
    }

    /// Notified when the slot is needed for another connection.
    pub(crate) fn evicted(&self) -> Arc<Notify> {
        self.evicted.clone()
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.lock().retain(|it| !Arc::ptr_eq(it, &self.evicted));
    }
}

/// Whether the peer of a loopback connection is a process of the same user. False if that cannot be determined.
#[cfg(target_os = "linux")]
async fn is_same_user(stream: &TcpStream) -> bool {
    let (Ok(near), Ok(far)) = (stream.local_addr(), stream.peer_addr()) else { return false };
    let user = rustix::process::geteuid().as_raw();
    let look = move || {
        let table = std::fs::read_to_string("/proc/net/tcp").unwrap_or_default();
        owner(&table, far.port(), near.port()) == Some(user)
    };
    tokio::task::spawn_blocking(look).await.unwrap_or(false)
}

#[cfg(not(target_os = "linux"))]
async fn is_same_user(_: &TcpStream) -> bool {
    false
}

/// The user id of a loopback connection, from the table `/proc/net/tcp`.
#[cfg(target_os = "linux")]
fn owner(table: &str, from: u16, to: u16) -> Option<u32> {
    let loopback = u32::from_ne_bytes([127, 0, 0, 1]);
    let ends = format!(" {loopback:08X}:{from:04X} {loopback:08X}:{to:04X} ");
    let row = table.lines().find(|line| line.contains(&ends))?;
    row.split_whitespace().nth(7)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn the_user_of_a_connection_is_found_in_the_table() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 1 1\n   1: 0100007F:C001 0100007F:1F90 01 00000000:00000000 00:00000000 00000000   501        0 2 1\n   2: 0100007F:1F90 0100007F:C001 01 00000000:00000000 00:00000000 00000000  1000        0 3 1\n";
        if cfg!(target_endian = "little") {
            assert_eq!(owner(table, 0xC001, 0x1F90), Some(501));
            assert_eq!(owner(table, 0x1F90, 0xC001), Some(1000));
        }
        assert_eq!(owner(table, 0xC002, 0x1F90), None);
        assert_eq!(owner("", 1, 2), None);
    }

    #[tokio::test]
    async fn only_the_oldest_connection_is_evicted() {
        let slots = Slots::default();
        let mut older: Vec<Slot> = (0..MAX_CONNECTIONS).map(|_| slots.add()).collect();
        let newest = slots.add();
        assert_eq!(older.remove(0).authenticate(std::future::pending::<Option<()>>()).await, None);
        for slot in older.into_iter().chain([newest]) {
            assert_eq!(slot.authenticate(std::future::ready(Some(7))).await, Some(7));
        }
        assert!(slots.lock().is_empty());
    }

    #[tokio::test]
    async fn a_completed_authentication_counts_even_if_the_slot_is_needed() {
        for _ in 0..64 {
            let slots = Slots::default();
            let oldest = slots.add();
            let _rest: Vec<Slot> = (0..MAX_CONNECTIONS).map(|_| slots.add()).collect();
            assert_eq!(oldest.authenticate(std::future::ready(Some(7))).await, Some(7));
        }
    }
}

//! Connections that have yet to show that they may call.
//!
//! A listener on loopback can be reached by every user of the machine. So these connections are
//! limited in number and in time, and when there are too many the oldest gives way. Connections of
//! the user who runs the conductor have places of their own: other users cannot take them.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::Notify;

/// How long a connection may take to show that it may call.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// How many connections may be about to show it, for each sort. An agent may well start all its MCP
/// clients in one moment.
const MOST_AT_ONCE: usize = 64;

/// From this many on it is worth finding out whose a connection is.
const CROWD: usize = 16;

/// The connections of one listener.
#[derive(Debug, Clone, Default)]
pub struct Strangers {
    ours: Row,
    others: Row,
}

/// Connections of one sort, oldest first.
#[derive(Debug, Clone, Default)]
struct Row(Arc<Mutex<VecDeque<Arc<Notify>>>>);

/// The place of one connection, until it is dropped.
#[derive(Debug)]
pub struct Place {
    row: Row,
    /// Told when the place is needed for another connection.
    gives_way: Arc<Notify>,
}

impl Strangers {
    /// A place for a connection to a TCP listener.
    pub async fn enter(&self, stream: &TcpStream) -> Place {
        let crowded = self.others.lock().len() >= CROWD;
        let ours = crowded && is_ours(stream).await;
        if ours { self.enter_as_ours() } else { self.others.enter() }
    }

    /// A place for a connection of the user who runs the conductor.
    pub fn enter_as_ours(&self) -> Place {
        self.ours.enter()
    }
}

impl Row {
    fn enter(&self) -> Place {
        let gives_way = Arc::new(Notify::new());
        let mut row = self.lock();
        if row.len() >= MOST_AT_ONCE
            && let Some(oldest) = row.pop_front()
        {
            oldest.notify_one();
        }
        row.push_back(gives_way.clone());
        drop(row);
        Place { row: self.clone(), gives_way }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Arc<Notify>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// What a connection shows, if it does so in time and before its place is needed.
    pub async fn admit<T>(self, shown: impl Future<Output = Option<T>>) -> Option<T> {
        tokio::select! {
            // What was shown counts, even if the place is needed at the same moment.
            biased;
            shown = tokio::time::timeout(PATIENCE, shown) => shown.ok().flatten(),
            () = self.gives_way.notified() => None,
        }
    }

    /// Tells when the place is needed for another connection.
    pub fn gives_way(&self) -> Arc<Notify> {
        self.gives_way.clone()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.row.lock().retain(|it| !Arc::ptr_eq(it, &self.gives_way));
    }
}

/// Whether the other end of a loopback connection is a process of our own user. Where that cannot be
/// known, it is not.
#[cfg(target_os = "linux")]
async fn is_ours(stream: &TcpStream) -> bool {
    let (Ok(near), Ok(far)) = (stream.local_addr(), stream.peer_addr()) else { return false };
    let user = rustix::process::geteuid().as_raw();
    let look = move || {
        let table = std::fs::read_to_string("/proc/net/tcp").unwrap_or_default();
        owner(&table, far.port(), near.port()) == Some(user)
    };
    tokio::task::spawn_blocking(look).await.unwrap_or(false)
}

#[cfg(not(target_os = "linux"))]
async fn is_ours(_: &TcpStream) -> bool {
    false
}

/// The user of a loopback connection's end, from the system's table of connections.
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
    fn the_owner_is_found_in_the_systems_table() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 1 1\n   1: 0100007F:C001 0100007F:1F90 01 00000000:00000000 00:00000000 00000000   501        0 2 1\n   2: 0100007F:1F90 0100007F:C001 01 00000000:00000000 00:00000000 00000000  1000        0 3 1\n";
        if cfg!(target_endian = "little") {
            assert_eq!(owner(table, 0xC001, 0x1F90), Some(501));
            assert_eq!(owner(table, 0x1F90, 0xC001), Some(1000));
        }
        assert_eq!(owner(table, 0xC002, 0x1F90), None);
        assert_eq!(owner("", 1, 2), None);
    }

    #[tokio::test]
    async fn the_oldest_gives_way_and_the_others_stay() {
        let row = Row::default();
        let mut places: Vec<Place> = (0..MOST_AT_ONCE).map(|_| row.enter()).collect();
        let newest = row.enter();
        assert_eq!(places.remove(0).admit(std::future::pending::<Option<()>>()).await, None);
        for place in places.into_iter().chain([newest]) {
            assert_eq!(place.admit(std::future::ready(Some(7))).await, Some(7));
        }
        assert!(row.lock().is_empty());
    }

    #[tokio::test]
    async fn what_was_shown_counts_though_the_place_is_needed() {
        for _ in 0..64 {
            let row = Row::default();
            let oldest = row.enter();
            let _rest: Vec<Place> = (0..MOST_AT_ONCE).map(|_| row.enter()).collect();
            assert_eq!(oldest.admit(std::future::ready(Some(7))).await, Some(7));
        }
    }
}

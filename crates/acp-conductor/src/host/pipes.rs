//! Pipes that hold more than usual.
//!
//! Long messages need fewer turns through a wide pipe. But a user may have only so many pages in pipes
//! (64 MiB on Linux, unless it is set otherwise). Beyond that every new pipe of any program of this user
//! holds a page or two, and programs become slow. So one conductor widens pipes only within a small part
//! of that quota; the others stay as they are.

/// How much a wide pipe holds.
#[cfg(target_os = "linux")]
const WIDE_PIPE: usize = 512 * 1024;

/// The part of the user's quota that one conductor may use: a sixteenth, 4 MiB as a rule.
#[cfg(target_os = "linux")]
const QUOTA_FRACTION: usize = 16;

/// The share of a wide pipe in what may be used. Dropping it gives the share back.
#[derive(Debug)]
pub struct QuotaShare(#[cfg(target_os = "linux")] usize);

/// Widens a pipe, if there is quota left for it. Linux only.
#[cfg(target_os = "linux")]
pub fn widen(pipe: &impl std::os::fd::AsFd) -> Option<QuotaShare> {
    use rustix::pipe::{fcntl_getpipe_size, fcntl_setpipe_size};
    // What is no pipe cannot be asked, and a pipe may be wide already.
    let size = fcntl_getpipe_size(pipe).ok().filter(|size| *size < WIDE_PIPE)?;
    let share = QuotaShare::take(WIDE_PIPE - size)?;
    fcntl_setpipe_size(pipe, WIDE_PIPE).ok().map(|_| share)
}

#[cfg(not(target_os = "linux"))]
pub fn widen<T>(_pipe: &T) -> Option<QuotaShare> {
    None
}

#[cfg(target_os = "linux")]
mod linux {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::{QUOTA_FRACTION, QuotaShare};

    /// Some systems have larger ones.
    const SMALLEST_PAGE: usize = 4096;

    static USED: AtomicUsize = AtomicUsize::new(0);

    impl QuotaShare {
        pub(super) fn take(bytes: usize) -> Option<QuotaShare> {
            let add = |taken: usize| (taken + bytes <= quota()).then_some(taken + bytes);
            let taken = USED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
            taken.ok().map(|_| QuotaShare(bytes))
        }
    }

    impl Drop for QuotaShare {
        fn drop(&mut self) {
            USED.fetch_sub(self.0, Ordering::Relaxed);
        }
    }

    /// How much all wide pipes of this program may hold beyond the usual.
    fn quota() -> usize {
        static MOST: OnceLock<usize> = OnceLock::new();
        *MOST.get_or_init(|| {
            let pages = std::fs::read_to_string("/proc/sys/fs/pipe-user-pages-soft");
            let pages: Option<usize> = pages.ok().and_then(|it| it.trim().parse().ok());
            // 0 stands for no limit; what cannot be read is taken for the usual.
            let pages = pages.filter(|pages| *pages > 0).unwrap_or(16_384);
            pages.saturating_mul(SMALLEST_PAGE) / QUOTA_FRACTION
        })
    }
}

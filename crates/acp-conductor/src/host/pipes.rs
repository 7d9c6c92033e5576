//! Pipes with a larger buffer.
//!
//! Long messages need fewer reads and writes with a larger pipe buffer. But Linux limits the total size of all
//! pipes of a user (64 MiB by default). Beyond the limit every new pipe of any program of this user has only
//! one or two pages, which is slow. So a conductor uses only a small part of the limit.

/// The size of an enlarged pipe.
#[cfg(target_os = "linux")]
const WIDE_PIPE: usize = 512 * 1024;

/// A conductor uses one sixteenth of the user's limit, by default 4 MiB.
#[cfg(target_os = "linux")]
const QUOTA_FRACTION: usize = 16;

/// The part of the limit that an enlarged pipe uses. Dropping it releases the part.
#[derive(Debug)]
pub struct QuotaShare(#[cfg(target_os = "linux")] usize);

/// Enlarges a pipe if the limit allows it. Linux only.
#[cfg(target_os = "linux")]
pub fn widen(pipe: &impl std::os::fd::AsFd) -> Option<QuotaShare> {
    use rustix::pipe::{fcntl_getpipe_size, fcntl_setpipe_size};
    // Fails if this is not a pipe. A pipe may already be large enough.
    let size = fcntl_getpipe_size(pipe).ok().filter(|size| *size < WIDE_PIPE)?;
    let share = QuotaShare::take(WIDE_PIPE - size)?;
    fcntl_setpipe_size(pipe, WIDE_PIPE).ok().map(|_| share)
}

#[cfg(not(target_os = "linux"))]
/// Does nothing on this system.
pub fn widen<T>(_pipe: &T) -> Option<QuotaShare> {
    None
}

#[cfg(target_os = "linux")]
mod linux {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::{QUOTA_FRACTION, QuotaShare};

    /// Some systems have larger pages.
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

    /// The total size that this process may add to its pipes.
    fn quota() -> usize {
        static QUOTA: OnceLock<usize> = OnceLock::new();
        *QUOTA.get_or_init(|| {
            let pages = std::fs::read_to_string("/proc/sys/fs/pipe-user-pages-soft");
            let pages: Option<usize> = pages.ok().and_then(|it| it.trim().parse().ok());
            // 0 means no limit. The default is used in this case and if the file cannot be read.
            let pages = pages.filter(|pages| *pages > 0).unwrap_or(16_384);
            pages.saturating_mul(SMALLEST_PAGE) / QUOTA_FRACTION
        })
    }
}

//! Directories for the files of a test, removed at its end.

use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

/// Creates a directory for the files of a test. It is removed when the thread of the test ends, unless the test has
/// failed.
pub fn directory(name: &str) -> PathBuf {
    // Two tests may use the same name at the same time.
    static COUNT: AtomicU32 = AtomicU32::new(0);
    note_panics();
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("chain-{}-{name}-{number}", std::process::id());
    let path = std::env::temp_dir().join(name);
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).expect("a directory");
    OWN.with_borrow_mut(|own| own.0.push(path.clone()));
    path
}

thread_local! {
    static FAILED: Cell<bool> = const { Cell::new(false) };
    /// The directories of this test. Each test runs in its own thread.
    static OWN: RefCell<Directories> = const { RefCell::new(Directories(Vec::new())) };
}

struct Directories(Vec<PathBuf>);

impl Drop for Directories {
    fn drop(&mut self) {
        if FAILED.get() {
            return;
        }
        for path in &self.0 {
            // This may fail while a process that the test has ended still writes there.
            let _ = std::fs::remove_dir_all(path);
        }
    }
}

/// Marks threads that have panicked. A destructor cannot find out by itself, because the test harness catches the panic before
/// the thread ends.
fn note_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            // The thread may have destroyed its variables already.
            let _ = FAILED.try_with(|failed| failed.set(true));
            before(panic);
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::directory;

    #[test]
    fn a_directory_is_removed_after_the_test_unless_the_test_fails() {
        let passed = std::thread::spawn(|| directory("passed")).join().expect("no panic");
        assert!(!passed.exists());
        let failed = std::thread::spawn(|| {
            let path = directory("failed");
            let caught = std::panic::catch_unwind(|| panic!("an intended failure"));
            assert!(caught.is_err());
            path
        });
        let failed = failed.join().expect("the panic was caught");
        assert!(failed.exists());
        std::fs::remove_dir_all(failed).expect("it is there");
    }
}

//! `conductor try` in a real terminal: tmux.
//!
//! `captures/` has what the terminal shows, at 40, 80 and 160 columns. `UPDATE=1 cargo test --test try_terminal` writes
//! these files again: read them before you commit them.

#![cfg(unix)]

mod captures;
mod keyboard;
mod tmux;

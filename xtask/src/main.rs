//! The project's own chores: `cargo xtask` lists them.

fn main() {
    eprintln!("not yet");
}

//! Crashes of the demo agent.

use crate::chat::Chat;
use serde_json::json;

/// In a thread, the agent ends with its thread, whatever the prompt asks for.
#[test]
fn a_crash_ends_the_agent_in_the_middle_of_its_turn() {
    for prompt in ["crash", "crash hard"] {
        let crash = std::thread::spawn(move || {
            let mut chat = Chat::new(json!([]));
            chat.prompt_and_answer(prompt);
        });
        let panic = crash.join().expect_err("a crash");
        let text = panic.downcast_ref::<&str>().copied().unwrap_or_default();
        assert_eq!(text, "the prompt asked for a crash");
    }
}

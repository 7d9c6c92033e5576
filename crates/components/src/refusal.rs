//! The JSON-RPC codes with which components refuse requests.

use acp_proxy::Side;
use acp_wire::code::INTERNAL_ERROR;

/// For requests of the editor: the code that the conductor's own errors have.
///
/// It is not -32000. In ACP that is "authentication required": an editor hides the message and asks the user to log in.
pub const TO_EDITOR: i64 = INTERNAL_ERROR;

/// For requests of the agent, such as `fs/write_text_file`: the agent shows the message to its model.
pub const TO_AGENT: i64 = -32000;

/// The code for the side that has sent the request.
pub fn code_for(sender: Side) -> i64 {
    match sender {
        Side::Editor => TO_EDITOR,
        Side::Agent => TO_AGENT,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    /// Finds the sources below a folder that contain the code.
    fn uses(folder: &Path, found: &mut Vec<String>) {
        for entry in folder.read_dir().expect("a folder").map(|it| it.expect("an entry")) {
            let path = entry.path();
            if path.is_dir() {
                uses(&path, found);
            } else if path.extension().is_some_and(|it| it == "rs")
                && std::fs::read_to_string(&path).expect("a text").contains("-32000")
            {
                let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src"));
                let path = path.strip_prefix(root).expect("below the folder");
                found.push(path.to_string_lossy().replace('\\', "/"));
            }
        }
    }

    #[test]
    fn no_component_writes_the_code_for_a_login_itself() {
        let mut found = Vec::new();
        uses(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src")), &mut found);
        found.sort();
        // The demo agent asks for a login, to show what an editor does then.
        assert_eq!(found, ["demo/methods.rs", "refusal.rs"]);
    }
}

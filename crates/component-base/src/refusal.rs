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

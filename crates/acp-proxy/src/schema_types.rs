//! The methods of the requests and notifications of the ACP schema.

use acp_proxy_core::Side;

use crate::message_type::{Notification, Request};

macro_rules! requests {
    ($schema:ident $version:literal $($(#[$condition:meta])* $sender:ident $method:literal $request:ident => $response:ident;)*) => {
        $($(#[$condition])*
        impl Request for agent_client_protocol_schema::$schema::$request {
            const METHOD: &'static str = $method;
            const SENDER: Option<Side> = Some(Side::$sender);
            const VERSION: Option<u16> = Some($version);
            type Response = agent_client_protocol_schema::$schema::$response;
        })*

        #[cfg(test)]
        const REQUESTS: &[&str] = &[$($(#[$condition])* $method),*];
    };
}

macro_rules! notifications {
    ($schema:ident $version:literal $($(#[$condition:meta])* $sender:ident $method:literal $notification:ident;)*) => {
        $($(#[$condition])*
        impl Notification for agent_client_protocol_schema::$schema::$notification {
            const METHOD: &'static str = $method;
            const SENDER: Option<Side> = Some(Side::$sender);
            const VERSION: Option<u16> = Some($version);
        })*

        #[cfg(test)]
        const NOTIFICATIONS: &[&str] = &[$($(#[$condition])* $method),*];
    };
}

mod v1 {
    use super::{Notification, Request, Side};

    requests! { v1 1
        Editor "initialize" InitializeRequest => InitializeResponse;
        Editor "authenticate" AuthenticateRequest => AuthenticateResponse;
        Editor "logout" LogoutRequest => LogoutResponse;
        #[cfg(feature = "unstable")]
        Editor "auth/status" AuthStatusRequest => AuthStatusResponse;
        #[cfg(feature = "unstable")]
        Editor "providers/list" ListProvidersRequest => ListProvidersResponse;
        #[cfg(feature = "unstable")]
        Editor "providers/set" SetProviderRequest => SetProviderResponse;
        #[cfg(feature = "unstable")]
        Editor "providers/disable" DisableProviderRequest => DisableProviderResponse;
        Editor "session/new" NewSessionRequest => NewSessionResponse;
        Editor "session/load" LoadSessionRequest => LoadSessionResponse;
        Editor "session/resume" ResumeSessionRequest => ResumeSessionResponse;
        Editor "session/list" ListSessionsRequest => ListSessionsResponse;
        Editor "session/close" CloseSessionRequest => CloseSessionResponse;
        Editor "session/delete" DeleteSessionRequest => DeleteSessionResponse;
        #[cfg(feature = "unstable")]
        Editor "session/fork" ForkSessionRequest => ForkSessionResponse;
        #[cfg(feature = "unstable")]
        Editor "session/archive" ArchiveSessionRequest => ArchiveSessionResponse;
        #[cfg(feature = "unstable")]
        Editor "session/unarchive" UnarchiveSessionRequest => UnarchiveSessionResponse;
        #[cfg(feature = "unstable")]
        Editor "session/status" SessionStatusRequest => SessionStatusResponse;
        #[cfg(feature = "unstable")]
        Editor "session/set_title" SetSessionTitleRequest => SetSessionTitleResponse;
        Editor "session/set_mode" SetSessionModeRequest => SetSessionModeResponse;
        Editor "session/set_config_option" SetSessionConfigOptionRequest => SetSessionConfigOptionResponse;
        Editor "session/prompt" PromptRequest => PromptResponse;
        Agent "session/request_permission" RequestPermissionRequest => RequestPermissionResponse;
        Agent "fs/read_text_file" ReadTextFileRequest => ReadTextFileResponse;
        Agent "fs/write_text_file" WriteTextFileRequest => WriteTextFileResponse;
        Agent "terminal/create" CreateTerminalRequest => CreateTerminalResponse;
        Agent "terminal/output" TerminalOutputRequest => TerminalOutputResponse;
        Agent "terminal/release" ReleaseTerminalRequest => ReleaseTerminalResponse;
        Agent "terminal/wait_for_exit" WaitForTerminalExitRequest => WaitForTerminalExitResponse;
        Agent "terminal/kill" KillTerminalRequest => KillTerminalResponse;
        Agent "elicitation/create" CreateElicitationRequest => CreateElicitationResponse;
        #[cfg(feature = "unstable")]
        Agent "mcp/message" MessageMcpRequest => MessageMcpResponse;
    }

    notifications! { v1 1
        Editor "session/cancel" CancelNotification;
        #[cfg(feature = "unstable")]
        Editor "mcp/message" MessageMcpNotification;
        Agent "session/update" SessionNotification;
        Agent "elicitation/complete" CompleteElicitationNotification;
        #[cfg(feature = "unstable")]
        Agent "auth/status_update" AuthStatusUpdateNotification;
    }

    #[cfg(all(test, feature = "unstable"))]
    #[test]
    fn every_method_of_version_1_has_a_type() {
        use agent_client_protocol_schema::v1::{AGENT_METHOD_NAMES, CLIENT_METHOD_NAMES};
        let names = format!("{AGENT_METHOD_NAMES:?} {CLIENT_METHOD_NAMES:?}");
        super::tests::compare(&names, REQUESTS, NOTIFICATIONS);
    }
}

#[cfg(feature = "unstable_protocol_v2")]
mod v2 {
    use super::{Notification, Request, Side};

    requests! { v2 2
        Editor "initialize" InitializeRequest => InitializeResponse;
        Editor "auth/login" LoginAuthRequest => LoginAuthResponse;
        Editor "auth/logout" LogoutAuthRequest => LogoutAuthResponse;
        #[cfg(feature = "unstable")]
        Editor "auth/status" AuthStatusRequest => AuthStatusResponse;
        #[cfg(feature = "unstable")]
        Editor "providers/list" ListProvidersRequest => ListProvidersResponse;
        #[cfg(feature = "unstable")]
        Editor "providers/set" SetProviderRequest => SetProviderResponse;
        #[cfg(feature = "unstable")]
        Editor "providers/disable" DisableProviderRequest => DisableProviderResponse;
        Editor "session/new" NewSessionRequest => NewSessionResponse;
        Editor "session/resume" ResumeSessionRequest => ResumeSessionResponse;
        Editor "session/list" ListSessionsRequest => ListSessionsResponse;
        Editor "session/close" CloseSessionRequest => CloseSessionResponse;
        Editor "session/delete" DeleteSessionRequest => DeleteSessionResponse;
        #[cfg(feature = "unstable")]
        Editor "session/fork" ForkSessionRequest => ForkSessionResponse;
        #[cfg(feature = "unstable")]
        Editor "session/archive" ArchiveSessionRequest => ArchiveSessionResponse;
        #[cfg(feature = "unstable")]
        Editor "session/unarchive" UnarchiveSessionRequest => UnarchiveSessionResponse;
        #[cfg(feature = "unstable")]
        Editor "session/status" SessionStatusRequest => SessionStatusResponse;
        #[cfg(feature = "unstable")]
        Editor "session/set_title" SetSessionTitleRequest => SetSessionTitleResponse;
        Editor "session/set_config_option" SetSessionConfigOptionRequest => SetSessionConfigOptionResponse;
        Editor "session/prompt" PromptRequest => PromptResponse;
        Editor "tool_call/cancel" CancelToolCallRequest => CancelToolCallResponse;
        Editor "terminal/cancel" CancelTerminalRequest => CancelTerminalResponse;
        Agent "session/request_permission" RequestPermissionRequest => RequestPermissionResponse;
        Agent "elicitation/create" CreateElicitationRequest => CreateElicitationResponse;
        #[cfg(feature = "unstable")]
        Agent "mcp/message" MessageMcpRequest => MessageMcpResponse;
    }

    notifications! { v2 2
        Editor "session/cancel" CancelSessionNotification;
        #[cfg(feature = "unstable")]
        Editor "mcp/message" MessageMcpNotification;
        Agent "session/update" UpdateSessionNotification;
        Agent "elicitation/complete" CompleteElicitationNotification;
        #[cfg(feature = "unstable")]
        Agent "auth/status_update" AuthStatusUpdateNotification;
    }

    #[cfg(all(test, feature = "unstable"))]
    #[test]
    fn every_method_of_version_2_has_a_type() {
        use agent_client_protocol_schema::v2::{AGENT_METHOD_NAMES, CLIENT_METHOD_NAMES};
        let names = format!("{AGENT_METHOD_NAMES:?} {CLIENT_METHOD_NAMES:?}");
        super::tests::compare(&names, REQUESTS, NOTIFICATIONS);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    /// Compares our lists with a method table of the schema, of which `names` is the debug output. The methods
    /// `$/cancel_request` and `proxy/…` are in other tables, because the SDK handles them itself.
    pub(super) fn compare(names: &str, requests: &[&str], notifications: &[&str]) {
        let schema: BTreeSet<&str> = names.split('"').skip(1).step_by(2).collect();
        let ours: BTreeSet<&str> = requests.iter().chain(notifications).copied().collect();
        assert_eq!(schema, ours, "left: the schema's methods, right: ours");
    }
}

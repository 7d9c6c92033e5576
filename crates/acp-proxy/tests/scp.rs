//! Panels, comments and operations of the editor: `_scp/…`.

use acp_proxy::prelude::*;
use acp_proxy::scp::{
    ApplyEdit, Capabilities, Diagnostics, Done, Edit, FindAllReferences, FindDefinition,
    GetSelection, IdeOperation, IdeOperations, ListOpenFiles, OpenFile, PanelEventKind, Position,
    Range, Selection, ShowComment, ShowPanel,
};
use acp_proxy::script::play;

/// The `initialize` of an editor with these SCP capabilities, and its answer.
fn greeting(section: &str) -> String {
    let capabilities = format!(r#"{{"_meta":{{"symposium":{section}}}}}"#);
    let params = format!(r#"{{"protocolVersion":1,"clientCapabilities":{capabilities}}}"#);
    format!(
        r#"
        editor > {{"id":0,"method":"initialize","params":{params}}}
        agent  < {{"id":0,"method":"initialize","params":{params}}}
        agent  > {{"id":0,"result":{{"protocolVersion":1,"agentCapabilities":{{}}}}}}
        editor < {{"id":0,"result":{{"protocolVersion":1,"agentCapabilities":{{}}}}}}
        "#
    )
}

const ALL: &str = r#"{"version":"1.1","html_panel":true,"file_comment":true,"ide_operation":true}"#;

#[test]
fn a_component_shows_panels_and_comments_in_the_session_of_its_message() {
    let proxy = Proxy::new("tour").on_prompt(async |_, next| {
        next.show_panel(ShowPanel::new("p", "Tour", "<p>one</p>")).await?;
        next.show_panel(ShowPanel::update("p").contents("<p>two</p>").in_session("other")).await?;
        assert_eq!(next.get_panel("p").await?.as_deref(), Some("<p>two</p>"));
        assert_eq!(next.get_panel("q").await?, None);
        next.clear_panel("p").await?;
        let comment = ShowComment::new("c", "src/a.rs", Range::lines(3, 4), "Here.");
        next.show_comment(comment.with_replies()).await?;
        next.clear_comment("c").await?;
        Ok(PromptResponse::new(StopReason::EndTurn))
    });
    let script = r#"
        editor > {"id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}
        editor < {"id":2,"method":"_scp/html_panel/show","params":{"id":"p","label":"Tour","contents":"<p>one</p>","sessionId":"s"}}
        editor > {"id":2,"result":{}}
        editor < {"id":3,"method":"_scp/html_panel/show","params":{"id":"p","contents":"<p>two</p>","sessionId":"other"}}
        editor > {"id":3,"result":null}
        editor < {"id":4,"method":"_scp/html_panel/get","params":{"id":"p"}}
        editor > {"id":4,"result":"<p>two</p>"}
        editor < {"id":5,"method":"_scp/html_panel/get","params":{"id":"q"}}
        editor > {"id":5,"result":null}
        editor < {"id":6,"method":"_scp/html_panel/clear","params":{"id":"p"}}
        editor > {"id":6,"result":{"later":1}}
        editor < {"id":7,"method":"_scp/file_comment/show","params":{"id":"c","url":"src/a.rs","start":{"line":3},"end":{"line":4},"can_reply":true,"contents":"Here.","sessionId":"s"}}
        editor > {"id":7,"result":{}}
        editor < {"id":8,"method":"_scp/file_comment/clear","params":{"id":"c"}}
        editor > {"id":8,"result":{}}
        editor < {"id":1,"result":{"stopReason":"end_turn"}}
        "#;
    play(proxy, &format!("{}{script}", greeting(ALL)));
}

#[test]
fn an_editor_without_a_capability_is_not_asked() {
    let proxy = Proxy::new("tour").on_prompt(async |prompt, next| {
        let capabilities = next.editor_capabilities();
        assert!(capabilities.file_comment && !capabilities.has_additions());
        let error = next.show_panel(ShowPanel::new("p", "Tour", "")).await.unwrap_err();
        assert!(error.message().contains("`html_panel`"), "{error}");
        let error = next.clear_comment("c").await.unwrap_err();
        assert!(error.message().contains("version 1.1"), "{error}");
        next.show_comment(ShowComment::new("c", "/a", Range::line(1), "")).await?;
        next.run(prompt).await
    });
    let script = r#"
        editor > {"id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}
        editor < {"id":2,"method":"_scp/file_comment/show","params":{"id":"c","url":"/a","start":{"line":1},"can_reply":false,"contents":"","sessionId":"s"}}
        editor > {"id":2,"error":{"code":-32602,"message":"no such file"}}
        editor < {"id":1,"error":{"code":-32602,"message":"no such file"}}
        "#;
    play(
        proxy,
        &format!("{}{script}", greeting(r#"{"version":"1.0","file_comment":true,"html_panel":0}"#)),
    );
}

#[test]
fn events_of_other_components_pass_and_own_ones_do_not() {
    let proxy = Proxy::new("tour")
        .on_panel_event(|event, context| {
            if event.id == "own" {
                let text = event.text();
                context.announce("s", format!("{}:{:?}:{text}", event.widget, event.kind));
            }
            event.id == "own"
        })
        .on_panel_event(|event, _| {
            assert_ne!(event.id, "own", "the first handler has taken it");
            event.kind == PanelEventKind::Toggle
        })
        .on_panel_closed(|closed, _| closed.id == "own")
        .on_comment_reply(|reply, _| reply.id == "own" && reply.contents == "yes");
    play(
        proxy,
        r#"
        editor > {"method":"_scp/html_panel/event","params":{"id":"own","widget":"w","kind":"choice","value":"a"}}
        editor < {"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"w:Choice:a"}}}}
        editor > {"method":"_scp/html_panel/event","params":{"id":"own","widget":"w","kind":"shake","value":7,"x":1}}
        editor < {"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"w:Other(\"shake\"):7"}}}}
        editor > {"method":"_scp/html_panel/event","params":{"id":"other","widget":"w","kind":"shake","x":1.0}}
        agent  < {"method":"_scp/html_panel/event","params":{"id":"other","widget":"w","kind":"shake","x":1.0}}
        editor > {"method":"_scp/html_panel/event","params":{"id":"other","widget":"w","kind":"toggle","value":true}}
        editor > {"method":"_scp/html_panel/closed","params":{"id":"own"}}
        editor > {"method":"_scp/html_panel/closed","params":{"id":"other"}}
        agent  < {"method":"_scp/html_panel/closed","params":{"id":"other"}}
        editor > {"method":"_scp/file_comment/reply","params":{"id":"own","contents":"yes"}}
        editor > {"method":"_scp/file_comment/reply","params":{"id":"own","contents":"no"}}
        agent  < {"method":"_scp/file_comment/reply","params":{"id":"own","contents":"no"}}
        "#,
    );
}

#[test]
fn operations_of_the_editor_have_types() {
    let proxy = Proxy::new("ide").on_prompt(async |_, next| {
        let editor = next.editor();
        assert_eq!(editor.request(GetSelection::default()).await?, None);
        let selection = editor.request(GetSelection::default()).await?.expect("a selection");
        assert_eq!((selection.start, &*selection.text), (Position::new(1, 2), "x"));
        editor.request(OpenFile { url: "/a".into(), ..OpenFile::default() }).await?;
        let found = editor.request(FindDefinition::at("/a", 1, 2)).await?;
        assert_eq!(found.locations[0].text.as_deref(), Some("fn x() {"));
        assert!(editor.request(FindAllReferences::named("x")).await?.locations.is_empty());
        let found = editor.request(Diagnostics::default()).await?.diagnostics;
        assert_eq!(found.iter().map(|it| it.severity.name()).collect::<Vec<_>>(), ["error", "odd"]);
        assert!(editor.request(ListOpenFiles::default()).await?.files[0].active);
        let edit =
            Edit { url: "/a".into(), start: Position::line(1), end: None, new_text: "y".into() };
        let edits = ApplyEdit { edits: vec![edit], ..ApplyEdit::default() };
        let applied = editor.request(edits).await?;
        assert_eq!((applied.applied, applied.reason.as_deref()), (false, Some("refused")));
        Ok(PromptResponse::new(StopReason::EndTurn))
    });
    play(
        proxy,
        r#"
        editor > {"id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}
        editor < {"id":2,"method":"_scp/ide_operation/get-selection","params":{}}
        editor > {"id":2,"result":null}
        editor < {"id":3,"method":"_scp/ide_operation/get-selection","params":{}}
        editor > {"id":3,"result":{"url":"/a","start":{"line":1,"column":2},"end":{"line":1,"column":3},"text":"x","more":1}}
        editor < {"id":4,"method":"_scp/ide_operation/open-file","params":{"url":"/a"}}
        editor > {"id":4,"result":{}}
        editor < {"id":5,"method":"_scp/ide_operation/find-definition","params":{"url":"/a","line":1,"column":2}}
        editor > {"id":5,"result":{"locations":[{"url":"/a","start":{"line":9},"text":"fn x() {"}]}}
        editor < {"id":6,"method":"_scp/ide_operation/find-all-references","params":{"symbol":"x"}}
        editor > {"id":6,"result":{"locations":[]}}
        editor < {"id":7,"method":"_scp/ide_operation/diagnostics","params":{}}
        editor > {"id":7,"result":{"diagnostics":[{"url":"/a","start":{"line":1},"end":{"line":1},"severity":"error","message":"m"},{"url":"/a","start":{"line":1},"severity":"odd","message":"m","source":"s"}]}}
        editor < {"id":8,"method":"_scp/ide_operation/list-open-files","params":{}}
        editor > {"id":8,"result":{"files":[{"url":"/a","active":true}]}}
        editor < {"id":9,"method":"_scp/ide_operation/apply-edit","params":{"edits":[{"url":"/a","start":{"line":1},"new_text":"y"}]}}
        editor > {"id":9,"result":{"applied":false,"reason":"refused"}}
        editor < {"id":1,"result":{"stopReason":"end_turn"}}
        "#,
    );
    for operation in IdeOperation::ALL {
        assert_eq!(IdeOperation::from_name(operation.name()), Some(operation));
        assert!(operation.method().ends_with(&format!("/{}", operation.name())));
    }
    assert_eq!(IdeOperation::from_name(""), None);
}

#[test]
fn a_component_provides_capabilities_to_those_behind_it() {
    let proxy = Proxy::new("companion")
        .on_raw_request(Side::Editor, "initialize", async |mut call, next| {
            assert!(!next.editor_capabilities().html_panel);
            let provided = Capabilities {
                version: (1, 1),
                html_panel: true,
                ide_operations: IdeOperations::of([IdeOperation::GetSelection]),
                ..Capabilities::default()
            };
            call.params = call.params.map(|params| provided.add_to(&params));
            next.run(call).await
        })
        .on_request(async |panel: ShowPanel, _| match panel.contents {
            Some(_) => Ok(Done {}),
            None => Err(Error::invalid_params("the panel has no contents")),
        })
        .on_request(async |_: GetSelection, _| {
            let start = Position::line(7);
            Ok(Some(Selection { url: "/a".into(), start, end: None, text: "x".into() }))
        });
    play(
        proxy,
        r#"
        editor > {"id":1,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{"_meta":{"symposium":{"version":"1.0","file_comment":true}}}}}
        agent  < {"id":1,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{"_meta":{"symposium":{"version":"1.1","file_comment":true,"html_panel":true,"ide_operation":["get-selection"]}}}}}
        agent  > {"id":1,"result":{"protocolVersion":1,"agentCapabilities":{}}}
        editor < {"id":1,"result":{"protocolVersion":1,"agentCapabilities":{}}}
        agent  > {"id":2,"method":"_scp/html_panel/show","params":{"id":"p","contents":"","more":1}}
        agent  < {"id":2,"result":{}}
        agent  > {"id":3,"method":"_scp/html_panel/show","params":{"id":"p"}}
        agent  < {"id":3,"error":{"code":-32602,"message":"the panel has no contents"}}
        agent  > {"id":4,"method":"_scp/ide_operation/get-selection"}
        agent  < {"id":4,"result":{"url":"/a","start":{"line":7},"text":"x"}}
        agent  > {"id":5,"method":"_scp/file_comment/show","params":{"id":"c","url":"/a","start":{"line":1},"can_reply":false}}
        editor < {"id":5,"method":"_scp/file_comment/show","params":{"id":"c","url":"/a","start":{"line":1},"can_reply":false}}
        "#,
    );
}

/// Tools that need something of the editor are offered only to editors that have it.
#[test]
fn tools_are_offered_as_far_as_the_editor_supports_them() {
    let proxy = || {
        Proxy::new("ide")
            .tool("select", "Selects", async |_: NoInput| Ok("selected"))
            .tool("open", "Opens", async |_: NoInput| Ok("opened"))
            .offer_tools_if(|tool, editor| match tool {
                "open" => editor.performs(IdeOperation::OpenFile),
                _ => editor.performs(IdeOperation::GetSelection),
            })
    };
    let new = r#"
        editor > {"id":1,"method":"session/new","params":{"cwd":"/"}}
        agent  < {"id":1,"method":"session/new","params":{"cwd":"/"}}
        agent  > {"id":1,"result":{"sessionId":"s"}}
        editor < {"id":1,"result":{"sessionId":"s"}}
        "#;
    play(proxy(), new);
    let without = r#"{"version":"1.0","ide_operation":true}"#;
    play(proxy(), &format!("{}{new}", greeting(without)));

    let mut conversation = acp_proxy::script::Conversation::new(proxy());
    let section = r#"{"version":"1.1","ide_operation":["open-file"]}"#;
    for line in greeting(section).lines().map(str::trim).filter(|it| !it.is_empty()) {
        match line.split_once(" > ") {
            Some((side, json)) if side.trim() == "editor" => conversation.send("editor", json),
            Some(_) => {
                let id = conversation.receive("agent")["id"].clone();
                let result = json!({ "protocolVersion": 1, "agentCapabilities": {} });
                conversation.send("agent", &json!({ "id": id, "result": result }).to_string());
                conversation.receive("editor");
            }
            None => {}
        }
    }
    conversation.send("editor", r#"{"id":1,"method":"session/new","params":{"cwd":"/"}}"#);
    let server = conversation.receive("agent")["params"]["mcpServers"][0]["serverId"].clone();
    let mut ask = |method: &str, params: acp_proxy::serde_json::Value| {
        let params =
            json!({ "serverId": server, "requestId": "1", "method": method, "params": params });
        let request = json!({ "id": 9, "method": "mcp/message", "params": params });
        conversation.send("agent", &request.to_string());
        conversation.receive("agent")["result"].clone()
    };
    let tools = ask("tools/list", json!({}))["result"]["tools"].clone();
    assert_eq!(tools.as_array().map(Vec::len), Some(1), "{tools}");
    assert_eq!(tools[0]["name"], "open");
    let refused = ask("tools/call", json!({ "name": "select" }));
    assert_eq!(refused["error"]["message"], "there is no tool 'select'");
}

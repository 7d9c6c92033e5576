//! Writes the TypeScript types of the link.

use std::path::Path;

use ts_rs::TS;

use super::*;

const HEAD: &str = "// Made from crates/web/src/protocol by `UPDATE=1 cargo test -p acp-conductor-web types`. Do not edit.\n";

fn types() -> String {
    let mut text = HEAD.to_owned();
    macro_rules! add {
        ($($kind:ty),* $(,)?) => { $( text.push_str(&format!("\nexport {}\n", <$kind>::decl())); )* };
    }
    add!(
        ToServer,
        Want,
        ToPage,
        Change,
        Features,
        Entry,
        Chain,
        Login,
        Session,
        Block,
        Tool,
        Place,
        FileDiff,
        Exit,
        Step,
        Question,
        Choice,
        Activity,
        Settings,
        Select,
        SelectValue,
        Command,
        Thread,
        Reply,
        Action,
        Attachment,
        Unqueued,
        FileEntry,
        FileText,
        FoundFile,
    );
    text
}

#[test]
fn the_types_of_the_page_are_those_of_the_server() {
    let file =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients/typescript/src/link/types.ts");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::create_dir_all(file.parent().expect("a folder")).expect("created");
        std::fs::write(&file, types()).expect("written");
    }
    let written =
        std::fs::read_to_string(&file).expect("clients/typescript/src/link/types.ts exists");
    assert!(written == types(), "run `UPDATE=1 cargo test -p acp-conductor-web types`");
}

//! The component `ide`: operations of the editor as MCP tools.
//!
//! - `texts`: the results as text

mod texts;

use std::path::{Component, PathBuf};
use std::time::Duration;

use acp_proxy::scp::{
    ApplyEdit, Diagnostics, Edit, FindAllReferences, FindDefinition, GetSelection, IdeOperation,
    ListOpenFiles, Locations, OpenFile, Position,
};
use acp_proxy::{
    Error, IntoToolOutput, JsonSchema, NoInput, Proxy, Request, Result, ToolContext, ToolOutput,
    schemars,
};
use clap::Parser;
use serde::{Deserialize, Serialize};
use web::project::file_url;

use crate::turn_ends::TurnEnds;
use component_base::BuiltIn;
use component_base::sessions::Sessions;
use texts::More;

/// Gives the agent tools to work with the editor: the selection, open files, definitions, diagnostics.
///
/// The tools are offered as far as the editor performs the operations (SCP capability `ide_operation`). With an editor
/// that performs none, the agent gets no tools.
#[derive(Debug, Clone, Default, Parser, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Ide {
    /// Do not offer tools that change files.
    #[arg(long)]
    read_only: bool,

    #[arg(skip)]
    #[serde(skip)]
    turn_ends: TurnEnds,

    /// They survive a restart of the component.
    #[arg(skip)]
    #[serde(skip)]
    sessions: Sessions<()>,
}

/// How long an editor may take. `apply_edit` waits longer, because a person decides.
const TIMEOUT: Duration = Duration::from_secs(60);
const EDIT_TIMEOUT: Duration = Duration::from_secs(3600);

/// How many changes one call of `apply_edit` may have.
const MAX_EDITS: usize = 500;

/// A place in a file.
#[derive(Deserialize, JsonSchema)]
struct OpenInput {
    /// The file: a path relative to the folder of the session, or an absolute path.
    path: String,
    /// The line to show. The first one is 1.
    line: Option<u32>,
    /// The column to show. The first one is 1.
    column: Option<u32>,
}

/// A symbol: by its name, by a place where it is used, or by both. If nothing is found at the place, the name is searched.
#[derive(Deserialize, JsonSchema)]
struct SymbolInput {
    /// The name of the symbol. Or give path, line and column, or all of them.
    symbol: Option<String>,
    /// The file in which the symbol is used: a path relative to the folder of the session, or an absolute path.
    path: Option<String>,
    /// The line in which the symbol is used. The first one is 1.
    line: Option<u32>,
    /// The column in which the symbol is used. The first one is 1.
    column: Option<u32>,
}

/// A file.
#[derive(Deserialize, JsonSchema)]
struct FileInput {
    /// The file: a path relative to the folder of the session, or an absolute path. All files, if it is absent.
    path: Option<String>,
}

/// Changes of files.
#[derive(Deserialize, JsonSchema)]
struct EditInput {
    /// What the changes are for, in a few words.
    label: Option<String>,
    /// The changes. They must not overlap.
    edits: Vec<EditPart>,
}

/// A change of a part of a file.
#[derive(Deserialize, JsonSchema)]
struct EditPart {
    /// The file: a path relative to the folder of the session, or an absolute path.
    path: String,
    /// The first line of the part. The first line of a file is 1.
    line: u32,
    /// The first column of the part. Without it, the part begins with its line.
    column: Option<u32>,
    /// The last line of the part. Without it, the part ends in its first line.
    end_line: Option<u32>,
    /// The column behind the part. Without it, the part ends with its line.
    end_column: Option<u32>,
    /// The text that replaces the part.
    new_text: String,
}

/// The name of the MCP server. It is not `ide`: Claude Code keeps that name for its own connection to an editor, and hides
/// all other tools of such a server.
const SERVER: &str = "editor";

/// The names of the tools: `get_selection` for `get-selection`.
const TOOLS: [&str; 7] = [
    "get_selection",
    "open_file",
    "find_definition",
    "find_all_references",
    "diagnostics",
    "list_open_files",
    "apply_edit",
];

/// The name of the tool for an operation.
fn tool_name(operation: IdeOperation) -> &'static str {
    let name = operation.name().replace('-', "_");
    TOOLS.into_iter().find(|it| *it == name).unwrap_or_default()
}

impl BuiltIn for Ide {
    const NAME: &'static str = "ide";

    fn build(&self) -> acp_proxy::Component {
        let read_only = self.read_only;
        let asking = Asking { turn_ends: self.turn_ends.clone(), sessions: self.sessions.clone() };
        // The names of the others are words that other tools use as well, and they do not wait for the user.
        let proxy = self.turn_ends.watch(Proxy::new(Self::NAME), &["apply_edit"]);
        add_tools(self.sessions.watch(proxy), &asking)
            .tool_server_name(SERVER)
            .offer_tools_if(move |tool, editor| {
                let mut all = IdeOperation::ALL.into_iter();
                let operation = all.find(|it| tool_name(*it) == tool);
                let is_allowed = |it: &IdeOperation| *it != IdeOperation::ApplyEdit || !read_only;
                operation.filter(is_allowed).is_some_and(|it| editor.performs(it))
            })
            .into()
    }
}

fn add_tools(proxy: Proxy, asking: &Asking) -> Proxy {
    let [selection, open, definition, references, diagnostics, files, edit] =
        std::array::from_fn(|_| asking.clone());
    proxy
        .tool_with(
            "get_selection",
            "Returns the text that the user has selected in the editor, with its file and lines",
            async move |_: NoInput, context| {
                let request = GetSelection { session_id: context.session() };
                let mut found = selection.ask(&context, request, TIMEOUT).await?;
                let (text, more) = texts::selection(found.as_mut());
                output(text, &serde_json::json!({ "selection": found }), more)
            },
        )
        .tool_with(
            "open_file",
            "Shows a file to the user in the editor",
            async move |input: OpenInput, context| {
                let OpenInput { path, line, column } = input;
                check_position(&path, line, column)?;
                let done = texts::opened(&path, line);
                let (url, session_id) = (open.url(&context, &path), context.session());
                let request = OpenFile { url, line, column, session_id };
                open.ask(&context, request, TIMEOUT).await?;
                done.into_tool_output()
            },
        )
        .tool_with(
            "find_definition",
            "Finds where a symbol is defined, with the editor's knowledge of the code",
            async move |input: SymbolInput, context| {
                let mut found = definition.find(&context, input, definition_of).await?;
                let (text, more) = texts::locations("definition", &mut found.locations);
                output(text, &found, more)
            },
        )
        .tool_with(
            "find_all_references",
            "Finds where a symbol is used, with the editor's knowledge of the code",
            async move |input: SymbolInput, context| {
                let mut found = references.find(&context, input, references_of).await?;
                let (text, more) = texts::locations("reference", &mut found.locations);
                output(text, &found, more)
            },
        )
        .tool_with(
            "diagnostics",
            "Returns the errors and warnings that the editor shows, of a file or of all files",
            async move |input: FileInput, context| {
                let url = input.path.map(|path| diagnostics.url(&context, &path));
                let request = Diagnostics { url, session_id: context.session() };
                let mut found = diagnostics.ask(&context, request, TIMEOUT).await?;
                let (text, more) = texts::diagnostics(&mut found.diagnostics);
                output(text, &found, more)
            },
        )
        .tool_with(
            "list_open_files",
            "Lists the files that the user has open in the editor",
            async move |_: NoInput, context| {
                let request = ListOpenFiles { session_id: context.session() };
                let mut found = files.ask(&context, request, TIMEOUT).await?;
                let (text, more) = texts::open_files(&mut found.files);
                output(text, &found, more)
            },
        )
        .tool_with(
            "apply_edit",
            "Proposes changes of files. The editor shows them as a diff, and the user accepts or refuses them",
            async move |input: EditInput, context| {
                let mut request = input.request(context.session())?;
                request.edits.iter_mut().for_each(|it| it.url = edit.url(&context, &it.url));
                let applied = edit.ask(&context, request, EDIT_TIMEOUT).await?;
                output(texts::applied(&applied), &applied, More::None)
            },
        )
}

fn definition_of(input: SymbolInput, session_id: Option<String>) -> FindDefinition {
    let SymbolInput { symbol, path: url, line, column } = input;
    FindDefinition { url, line, column, symbol, session_id }
}

fn references_of(input: SymbolInput, session_id: Option<String>) -> FindAllReferences {
    let SymbolInput { symbol, path: url, line, column } = input;
    FindAllReferences { url, line, column, symbol, session_id }
}

/// A result for the model. Some agents give the model only the structured content, so that says everything as well.
fn output(text: String, structured: &impl Serialize, more: More) -> Result<ToolOutput> {
    let structured = serde_json::to_value(structured);
    let mut structured = structured.map_err(|why| Error::internal(why.to_string()))?;
    match more {
        More::None => {}
        More::Entries(count) => structured["more"] = count.into(),
        More::Text => structured["more"] = true.into(),
    }
    text.into_tool_output()?.with_structured(&structured)
}

/// How the tools ask the editor.
#[derive(Debug, Clone)]
struct Asking {
    turn_ends: TurnEnds,
    sessions: Sessions<()>,
}

impl Asking {
    /// Asks the editor. The errors of the editor are explained to the agent.
    async fn ask<T: Request>(
        &self,
        context: &ToolContext,
        request: T,
        timeout: Duration,
    ) -> Result<T::Response> {
        self.answer_to(context, request, timeout).await?.map_err(|why| could_not(&why))
    }

    /// The answer of the editor, or its error. Ends with an error of its own when the agent cancels the tool call, when its
    /// turn is over, and when the editor does not answer. The request to the editor is cancelled then.
    async fn answer_to<T: Request>(
        &self,
        context: &ToolContext,
        request: T,
        timeout: Duration,
    ) -> Result<Result<T::Response>> {
        let operation = IdeOperation::ALL.into_iter().find(|it| it.method() == T::METHOD);
        let tool = operation.map(tool_name).unwrap_or_default();
        let mut end = self.turn_ends.begin(&context.session().unwrap_or_default(), tool);
        let editor = context.editor();
        tokio::select! {
            biased;
            () = context.cancelled() => Err("the call was cancelled".into()),
            answer = editor.request(request) => Ok(answer),
            () = end.wait() => Err("the turn is over, so the editor is not asked any more".into()),
            () = tokio::time::sleep(timeout) => {
                let seconds = timeout.as_secs();
                Err(format!("the editor has not answered within {seconds} seconds").into())
            }
        }
    }
}

impl Asking {
    /// Finds a symbol at its place. If the editor finds nothing there and the agent has named the symbol, it is searched by
    /// its name. An editor that has not answered in time, or in the turn, is not asked again.
    async fn find<T: Request<Response = Locations>>(
        &self,
        context: &ToolContext,
        input: SymbolInput,
        request: impl Fn(SymbolInput, Option<String>) -> T,
    ) -> Result<Locations> {
        let SymbolInput { symbol, path, line, column } = input.checked()?;
        let (at_place, by_name) = (
            path.map(|path| {
                let path = Some(self.url(context, &path));
                request(SymbolInput { symbol: None, path, line, column }, context.session())
            }),
            symbol.map(|it| {
                let symbol = Some(it);
                let input = SymbolInput { symbol, path: None, line: None, column: None };
                request(input, context.session())
            }),
        );
        let found = match at_place {
            Some(at_place) => Some(self.answer_to(context, at_place, TIMEOUT).await?),
            None => None,
        };
        match (found, by_name) {
            (Some(Ok(found)), _) if !found.locations.is_empty() => Ok(found),
            (_, Some(by_name)) => self.ask(context, by_name, TIMEOUT).await,
            (Some(found), None) => found.map_err(|why| could_not(&why)),
            (None, None) => Ok(Locations::default()),
        }
    }

    /// The URL of a path. A relative one is in the folder of the session. If the folder is not known, the editor knows it.
    fn url(&self, context: &ToolContext, path: &str) -> String {
        let folder = context.session().map(|it| self.sessions.cwd(&it)).unwrap_or_default();
        let full = folder.join(path);
        if path.contains("://") || !full.is_absolute() {
            return path.to_owned();
        }
        let mut plain = PathBuf::new();
        for part in full.components() {
            match part {
                Component::CurDir => {}
                Component::ParentDir => drop(plain.pop()),
                part => plain.push(part),
            }
        }
        file_url(&plain)
    }
}

/// The error of the editor, for the agent.
fn could_not(why: &Error) -> Error {
    Error::internal(format!("the editor could not do it: {}", why.message()))
}

/// Lines and columns begin with 1.
fn check_position(path: &str, line: Option<u32>, column: Option<u32>) -> Result<()> {
    if path.trim().is_empty() {
        return Err("the path is empty; name a file".into());
    }
    match line == Some(0) || column == Some(0) {
        true => Err(format!("lines and columns of {path} begin with 1, not with 0").into()),
        false => Ok(()),
    }
}

impl SymbolInput {
    /// The symbol by its place, its name, or both. An incomplete place does not count if there is a name.
    fn checked(self) -> Result<SymbolInput> {
        let symbol = self.symbol.filter(|it| !it.trim().is_empty());
        match (self.path, self.line, self.column) {
            (Some(path), Some(line), Some(column)) => {
                check_position(&path, Some(line), Some(column))?;
                let (path, line, column) = (Some(path), Some(line), Some(column));
                Ok(SymbolInput { symbol, path, line, column })
            }
            _ if symbol.is_some() => Ok(SymbolInput { symbol, path: None, line: None, column: None }),
            _ => Err("name the symbol with `symbol`, or a place where it is used with `path`, `line` and `column`".into()),
        }
    }
}

impl EditInput {
    fn request(self, session_id: Option<String>) -> Result<ApplyEdit> {
        if self.edits.is_empty() || self.edits.len() > MAX_EDITS {
            return Err(format!("`edits` must have between 1 and {MAX_EDITS} changes").into());
        }
        let edits: Result<Vec<Edit>> = self.edits.into_iter().map(EditPart::edit).collect();
        Ok(ApplyEdit { label: self.label, edits: edits?, session_id })
    }
}

impl EditPart {
    fn edit(self) -> Result<Edit> {
        let EditPart { path, line, column, end_line, end_column, new_text } = self;
        check_position(&path, Some(line), column)?;
        check_position(&path, end_line, end_column)?;
        let last = end_line.unwrap_or(line);
        let is_reversed =
            last < line || last == line && end_column < column && end_column.is_some();
        if is_reversed {
            return Err(format!("a change of {path} ends before it begins").into());
        }
        let start = Position { line, column };
        let end = Some(Position { line: last, column: end_column });
        Ok(Edit { url: path, start, end, new_text })
    }
}

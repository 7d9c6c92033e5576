//! The operations of an editor: `_scp/ide_operation/…`, since SCP 1.1.

use acp_proxy_core::Side;
use serde::{Deserialize, Serialize};

use super::{Done, Position};
use crate::message_type::Request;

/// An operation that an editor may offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IdeOperation {
    /// [`GetSelection`].
    GetSelection,
    /// [`OpenFile`].
    OpenFile,
    /// [`FindDefinition`].
    FindDefinition,
    /// [`FindAllReferences`].
    FindAllReferences,
    /// [`Diagnostics`].
    Diagnostics,
    /// [`ListOpenFiles`].
    ListOpenFiles,
    /// [`ApplyEdit`].
    ApplyEdit,
}

impl IdeOperation {
    /// All operations.
    pub const ALL: [IdeOperation; 7] = [
        IdeOperation::GetSelection,
        IdeOperation::OpenFile,
        IdeOperation::FindDefinition,
        IdeOperation::FindAllReferences,
        IdeOperation::Diagnostics,
        IdeOperation::ListOpenFiles,
        IdeOperation::ApplyEdit,
    ];

    /// The name in the capabilities, such as `get-selection`.
    pub fn name(self) -> &'static str {
        let prefix = "_scp/ide_operation/";
        self.method().strip_prefix(prefix).unwrap_or_default()
    }

    /// The method of its request.
    pub fn method(self) -> &'static str {
        match self {
            IdeOperation::GetSelection => GetSelection::METHOD,
            IdeOperation::OpenFile => OpenFile::METHOD,
            IdeOperation::FindDefinition => FindDefinition::METHOD,
            IdeOperation::FindAllReferences => FindAllReferences::METHOD,
            IdeOperation::Diagnostics => Diagnostics::METHOD,
            IdeOperation::ListOpenFiles => ListOpenFiles::METHOD,
            IdeOperation::ApplyEdit => ApplyEdit::METHOD,
        }
    }

    /// The operation with this name.
    pub fn from_name(name: &str) -> Option<IdeOperation> {
        IdeOperation::ALL.into_iter().find(|it| it.name() == name)
    }
}

/// Implements [`Request`] for an operation.
macro_rules! operation {
    ($type:ty, $name:literal, $response:ty) => {
        impl Request for $type {
            const METHOD: &'static str = concat!("_scp/ide_operation/", $name);
            const SENDER: Option<Side> = Some(Side::Agent);
            type Response = $response;
        }
    };
}

operation!(GetSelection, "get-selection", Option<Selection>);
operation!(OpenFile, "open-file", Done);
operation!(FindDefinition, "find-definition", Locations);
operation!(FindAllReferences, "find-all-references", Locations);
operation!(Diagnostics, "diagnostics", DiagnosticsFound);
operation!(ListOpenFiles, "list-open-files", OpenFiles);
operation!(ApplyEdit, "apply-edit", Applied);

/// Returns what the user has selected. `None` if nothing is selected.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct GetSelection {
    /// The session that asks.
    #[serde(rename = "sessionId", default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
}

/// What the user has selected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Selection {
    /// The file.
    pub url: String,
    /// Where the selection begins.
    pub start: Position,
    /// Where the selection ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<Position>,
    /// The selected text.
    #[serde(default)]
    pub text: String,
}

/// Shows a file to the user.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct OpenFile {
    /// The file.
    pub url: String,
    /// The line to show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// The column to show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<u32>,
    /// The session that asks.
    #[serde(rename = "sessionId", default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
}

/// The request of [`FindDefinition`] and [`FindAllReferences`], which have the same members.
macro_rules! find_request {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
        pub struct $name {
            /// The file in which the symbol is used.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub url: Option<String>,
            /// The line in which it is used.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub line: Option<u32>,
            /// The column in which it is used.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub column: Option<u32>,
            /// The name of the symbol, instead of a place where it is used.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub symbol: Option<String>,
            /// The session that asks.
            #[serde(rename = "sessionId", default, skip_serializing_if = "Option::is_none")]
            pub session_id: Option<String>,
        }

        impl $name {
            /// The symbol at this place.
            pub fn at(url: impl Into<String>, line: u32, column: u32) -> $name {
                let (url, line, column) = (Some(url.into()), Some(line), Some(column));
                $name { url, line, column, ..$name::default() }
            }

            /// The symbol with this name.
            pub fn named(symbol: impl Into<String>) -> $name {
                $name { symbol: Some(symbol.into()), ..$name::default() }
            }
        }
    };
}

find_request! {
    /// Finds where a symbol is defined: the symbol at a place, or with a name.
    FindDefinition
}

find_request! {
    /// Finds where a symbol is used: the symbol at a place, or with a name.
    FindAllReferences
}

/// The places that were found.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Locations {
    /// The places.
    #[serde(default)]
    pub locations: Vec<Location>,
}

/// A part of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Location {
    /// The file.
    pub url: String,
    /// Where the part begins.
    pub start: Position,
    /// Where the part ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<Position>,
    /// The line of code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// Returns the errors and warnings of a file, or of all files.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Diagnostics {
    /// The file. All files, if it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The session that asks.
    #[serde(rename = "sessionId", default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
}

/// The answer to [`Diagnostics`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DiagnosticsFound {
    /// The errors and warnings.
    #[serde(default)]
    pub diagnostics: Vec<Diagnostic>,
}

/// An error, a warning or a hint about a part of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnostic {
    /// The file.
    pub url: String,
    /// Where the part begins.
    pub start: Position,
    /// Where the part ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<Position>,
    /// How serious it is.
    pub severity: Severity,
    /// The text.
    pub message: String,
    /// The program that reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// How serious a [`Diagnostic`] is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// An error.
    Error,
    /// A warning.
    Warning,
    /// Information.
    Information,
    /// A hint.
    Hint,
    /// Something that this version does not know.
    #[serde(untagged)]
    Other(String),
}

impl Severity {
    /// The name: `error`, `warning`, `information` or `hint`.
    pub fn name(&self) -> &str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Information => "information",
            Severity::Hint => "hint",
            Severity::Other(name) => name,
        }
    }
}

/// Returns the files that the user has open.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ListOpenFiles {
    /// The session that asks.
    #[serde(rename = "sessionId", default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
}

/// The answer to [`ListOpenFiles`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct OpenFiles {
    /// The files.
    #[serde(default)]
    pub files: Vec<OpenedFile>,
}

/// A file that the user has open.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct OpenedFile {
    /// The file.
    pub url: String,
    /// Whether the user looks at it.
    #[serde(default)]
    pub active: bool,
    /// Whether it has changes that are not saved.
    #[serde(default)]
    pub modified: bool,
}

/// Proposes changes of files. The editor shows them, and the user accepts or refuses them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ApplyEdit {
    /// What the changes are for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The changes.
    #[serde(default)]
    pub edits: Vec<Edit>,
    /// The session that asks.
    #[serde(rename = "sessionId", default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
}

/// A change of a part of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edit {
    /// The file.
    pub url: String,
    /// Where the part begins.
    pub start: Position,
    /// Where the part ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<Position>,
    /// The text that replaces the part.
    pub new_text: String,
}

/// The answer to [`ApplyEdit`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Applied {
    /// Whether the files were changed.
    pub applied: bool,
    /// Why they were not changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

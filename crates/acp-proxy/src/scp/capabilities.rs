//! What an editor offers: the member `symposium` of its capabilities.

use std::collections::BTreeSet;

use acp_proxy_core::Json;
use acp_wire::acp;

use super::IdeOperation;

/// A version of SCP: the first number and the second one.
pub type Version = (u32, u32);

/// The version with the members and messages that SCP 1.0 does not have.
const WITH_ADDITIONS: Version = (1, 1);

/// Where editors write their capabilities in `initialize`: in ACP version 1, in version 2, and in the document of SCP.
const PLACES: [&[&str]; 3] = [
    &["clientCapabilities", "_meta", "symposium"],
    &["capabilities", "_meta", "symposium"],
    &["_meta", "symposium"],
];

/// What an editor offers, or a component on the editor's side.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Capabilities {
    /// The version of SCP. `(0, 0)` if the editor does not know SCP.
    pub version: Version,
    /// Whether it shows panels: [`ShowPanel`](super::ShowPanel).
    pub html_panel: bool,
    /// Whether it shows comments on files: [`ShowComment`](super::ShowComment).
    pub file_comment: bool,
    /// The operations that it performs.
    pub ide_operations: IdeOperations,
}

/// A set of operations of an editor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IdeOperations {
    /// Every operation.
    All,
    /// The operations with these names. Names that this version does not know stay.
    Named(BTreeSet<String>),
}

impl Default for IdeOperations {
    fn default() -> IdeOperations {
        IdeOperations::Named(BTreeSet::new())
    }
}

impl IdeOperations {
    /// A set of these operations.
    pub fn of(operations: impl IntoIterator<Item = IdeOperation>) -> IdeOperations {
        IdeOperations::Named(operations.into_iter().map(|it| it.name().to_owned()).collect())
    }

    /// Whether the set has this operation.
    pub fn contains(&self, operation: IdeOperation) -> bool {
        match self {
            IdeOperations::All => true,
            IdeOperations::Named(names) => names.contains(operation.name()),
        }
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        matches!(self, IdeOperations::Named(names) if names.is_empty())
    }

    fn read(json: &Json) -> IdeOperations {
        match json == &Json::TRUE {
            true => IdeOperations::All,
            false => {
                let names = json.elements();
                let names = names.iter().filter_map(|it| it.text().map(|it| it.into_owned()));
                IdeOperations::Named(names.collect())
            }
        }
    }

    fn write(&self) -> Json {
        match self {
            IdeOperations::All => Json::TRUE,
            IdeOperations::Named(names) => {
                let names: Vec<Json> = names.iter().map(|it| Json::string(it)).collect();
                Json::array(&names)
            }
        }
    }

    fn union(self, other: IdeOperations) -> IdeOperations {
        match (self, other) {
            (IdeOperations::Named(mut names), IdeOperations::Named(more)) => {
                names.extend(more);
                IdeOperations::Named(names)
            }
            _ => IdeOperations::All,
        }
    }
}

impl Capabilities {
    /// What the parameters of an `initialize` declare. Members that cannot be read count as absent.
    pub fn of(params: &Json) -> Capabilities {
        let sections = PLACES.into_iter().filter_map(|place| params.at(place));
        let sections = sections.filter(Json::is_object).map(|it| Capabilities::read(&it));
        sections.fold(Capabilities::default(), Capabilities::union)
    }

    /// Everything, in the current version.
    pub fn all() -> Capabilities {
        let ide_operations = IdeOperations::All;
        Capabilities {
            version: WITH_ADDITIONS,
            html_panel: true,
            file_comment: true,
            ide_operations,
        }
    }

    /// Whether the editor knows the additions of SCP 1.1: texts of comments, events, replies, and operations.
    pub fn has_additions(&self) -> bool {
        self.version >= WITH_ADDITIONS
    }

    /// Whether the editor performs this operation.
    pub fn performs(&self, operation: IdeOperation) -> bool {
        self.ide_operations.contains(operation)
    }

    /// The parameters of an `initialize` with these capabilities as well, for a component that provides them. What the
    /// parameters declare already stays.
    pub fn add_to(&self, params: &Json) -> Json {
        let all = Capabilities::of(params).union(self.clone());
        let is_v2 = acp::protocol_version(params).is_some_and(|version| version >= 2);
        let place = PLACES[usize::from(is_v2)];
        let (major, minor) = all.version;
        let version = Json::string(&format!("{major}.{minor}"));
        // `true` of an editor of SCP 1.0 has no meaning, and must not get one with the new version.
        let has_old =
            all.has_additions() && params.at(&[place, &["ide_operation"]].concat()).is_some();
        let operations =
            (has_old || !all.ide_operations.is_empty()).then(|| all.ide_operations.write());
        let members = [
            ("version", Some(version)),
            ("html_panel", all.html_panel.then_some(Json::TRUE)),
            ("file_comment", all.file_comment.then_some(Json::TRUE)),
            ("ide_operation", operations),
        ];
        let members = members.into_iter().filter_map(|(key, value)| Some((key, value?)));
        members.fold(with_object_at(params, place), |params, (key, value)| {
            params.with_at(&[place, &[key]].concat(), Some(&value))
        })
    }

    fn read(section: &Json) -> Capabilities {
        let version = section.member("version");
        let version = version.as_ref().and_then(read_version).unwrap_or((1, 0));
        let flag = |key: &str| section.member(key) == Some(Json::TRUE);
        Capabilities {
            version,
            html_panel: flag("html_panel"),
            file_comment: flag("file_comment"),
            ide_operations: section
                .member("ide_operation")
                // An editor that names its operations performs them, in any version.
                .filter(|it| version >= WITH_ADDITIONS || it.is_array())
                .map(|it| IdeOperations::read(&it))
                .unwrap_or_default(),
        }
    }

    fn union(self, other: Capabilities) -> Capabilities {
        Capabilities {
            version: self.version.max(other.version),
            html_panel: self.html_panel || other.html_panel,
            file_comment: self.file_comment || other.file_comment,
            ide_operations: self.ide_operations.union(other.ide_operations),
        }
    }
}

/// Replaces values on the path that are not objects, such as `null`, by empty objects.
fn with_object_at(params: &Json, place: &[&str]) -> Json {
    (1..=place.len()).fold(params.clone(), |params, length| {
        let path = &place[..length];
        match params.at(path).is_some_and(|it| it.is_object()) {
            true => params,
            false => params.with_at(path, Some(&Json::EMPTY_OBJECT)),
        }
    })
}

/// Reads a version such as `"1.1"`.
fn read_version(json: &Json) -> Option<Version> {
    let text = json.text()?;
    let mut numbers = text.split('.').map(|it| it.parse::<u32>().ok());
    Some((numbers.next()??, numbers.next().unwrap_or(Some(0))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json {
        Json::parse(text.to_owned()).unwrap()
    }

    fn of(section: &str) -> Capabilities {
        let text = format!(r#"{{"clientCapabilities":{{"_meta":{{"symposium":{section}}}}}}}"#);
        Capabilities::of(&json(&text))
    }

    #[test]
    fn capabilities_are_read_in_every_place_and_bad_values_count_as_absent() {
        assert_eq!(Capabilities::of(&json("{}")), Capabilities::default());
        assert_eq!(of("7"), Capabilities::default());
        let first = of(r#"{"version":"1.0","html_panel":true,"file_comment":false}"#);
        assert_eq!((first.version, first.html_panel, first.file_comment), ((1, 0), true, false));
        assert!(!first.has_additions());
        for place in [r#""capabilities":{"_meta":"#, r#""_meta":"#] {
            let end = if place.contains("cap") { "}}}" } else { "}}" };
            let text =
                format!(r#"{{{place}{{"symposium":{{"version":"1.2","ide_operation":true}}{end}"#);
            let read = Capabilities::of(&json(&text));
            assert!(read.performs(IdeOperation::ApplyEdit) && !read.html_panel, "{text}");
        }
        for version in ["true", r#""x""#, r#""1.x""#, r#""-1""#, r#""""#, "null", "1.1"] {
            let text = format!(r#"{{"version":{version},"ide_operation":["open-file"]}}"#);
            assert_eq!(of(&text).version, (1, 0), "{version}");
            assert!(of(&text).performs(IdeOperation::OpenFile), "it is named");
            assert!(!of(&text).performs(IdeOperation::ApplyEdit));
            let all = format!(r#"{{"version":{version},"ide_operation":true}}"#);
            assert!(!of(&all).performs(IdeOperation::OpenFile), "SCP 1.0 has no operations");
        }
        assert_eq!(of(r#"{"version":"2"}"#).version, (2, 0));
        let some =
            of(r#"{"version":"1.1","html_panel":1,"ide_operation":["open-file",3,"new-one"]}"#);
        assert!(!some.html_panel && some.performs(IdeOperation::OpenFile));
        assert!(!some.performs(IdeOperation::GetSelection));
        assert!(of(r#"{"version":"1.1","ide_operation":false}"#).ide_operations.is_empty());
    }

    #[test]
    fn a_component_adds_capabilities_and_weakens_none() {
        let panels = Capabilities { version: (1, 1), html_panel: true, ..Default::default() };
        assert_eq!(
            panels.add_to(&json(r#"{"protocolVersion":1,"x":1e400}"#)),
            json(
                r#"{"protocolVersion":1,"x":1e400,"clientCapabilities":{"_meta":{"symposium":{"version":"1.1","html_panel":true}}}}"#
            )
        );
        let before = r#"{"clientCapabilities":{"fs":{},"_meta":{"symposium":{"version":"1.3","file_comment":true,"ide_operation":["later"],"more":[1.0]}}}}"#;
        let operations = IdeOperations::of([IdeOperation::OpenFile]);
        let more = Capabilities { ide_operations: operations, ..panels.clone() };
        assert_eq!(
            more.add_to(&json(before)),
            json(
                r#"{"clientCapabilities":{"fs":{},"_meta":{"symposium":{"version":"1.3","file_comment":true,"ide_operation":["later","open-file"],"more":[1.0],"html_panel":true}}}}"#
            )
        );
        for strange in ["null", "7", r#"{"_meta":null}"#, r#"{"_meta":{"symposium":[]}}"#] {
            let params = json(&format!(r#"{{"clientCapabilities":{strange}}}"#));
            assert_eq!(Capabilities::of(&panels.add_to(&params)), panels, "{strange}");
        }
        let second =
            Capabilities::all().add_to(&json(r#"{"protocolVersion":2,"capabilities":{}}"#));
        assert_eq!(Capabilities::of(&second), Capabilities::all());
        assert!(second.at(&["capabilities", "_meta", "symposium"]).is_some());
        // SCP 1.0 has no operations, so `true` is not taken for all operations of 1.1.
        let first = r#"{"clientCapabilities":{"_meta":{"symposium":{"version":"1.0","html_panel":true,"ide_operation":true}}}}"#;
        let added = Capabilities::of(&more.add_to(&json(first)));
        assert!(added.html_panel && added.performs(IdeOperation::OpenFile));
        assert!(!added.performs(IdeOperation::Diagnostics));
        assert!(!Capabilities::of(&panels.add_to(&json(first))).performs(IdeOperation::OpenFile));
        // A component that provides nothing takes nothing away.
        assert_eq!(Capabilities::default().add_to(&second), second);
    }
}

//! Requests about the options of components: `_proxy/config`.
//!
//! ```json
//! {"id":1,"method":"_proxy/config","params":{"component":"filter","op":"set","values":{"redact":["token"]}}}
//! ```
//!
//! Such a request travels toward the agent, hop by hop. A component does not know the name that it has in the chain. So
//! a conductor adds `"here": true` when it delivers the request to the component that is meant. It recognises the
//! requests that are on their way in its chain by the member `route`. A request of another shape is none of these
//! requests.

use crate::json::Json;
use crate::message::Call;
use crate::secret_names::{has_secret_values, is_secret_name};

/// The method.
pub const CONFIG: &str = "_proxy/config";

/// The name under which a conductor answers for itself.
pub const CONDUCTOR: &str = "conductor";

const COMPONENT: &str = "component";
const OPERATION: &str = "op";
const VALUES: &str = "values";
const HERE: &str = "here";
const ROUTE: &str = "route";
const HIDDEN: &str = "hidden";

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// The values of the options.
    Get,
    /// New values for some options.
    Set,
    /// The JSON Schema of the options.
    Schema,
}

/// A request about options.
#[derive(Debug, Clone, PartialEq)]
pub struct ConfigRequest {
    /// The component that is meant. `None` for the receiver itself, and for a conductor.
    pub component: Option<String>,
    /// What is asked for.
    pub operation: Operation,
    /// The new values: an object.
    pub values: Option<Json>,
    /// Whether the receiver is meant.
    pub here: bool,
    /// The mark of the conductor that has sent the request on its way.
    pub route: Option<String>,
}

impl ConfigRequest {
    /// Reads a request. `None` for other methods and for params of another shape: a member is missing, has a value of
    /// another type, or occurs twice.
    pub fn of(call: &Call) -> Option<ConfigRequest> {
        let params = call.params.as_ref().filter(|params| call.is(CONFIG) && params.is_object())?;
        let members = params.members();
        let member = |key: &str| members.iter().find(|(name, _)| name == key).map(|it| &it.1);
        let is_unique = |key: &&str| members.iter().filter(|(name, _)| name == key).count() <= 1;
        if ![COMPONENT, OPERATION, VALUES, HERE, ROUTE].iter().all(is_unique) {
            return None;
        }
        let operation = match &*member(OPERATION)?.text()? {
            "get" => Operation::Get,
            "set" => Operation::Set,
            "schema" => Operation::Schema,
            _ => return None,
        };
        let text = |key: &str| match member(key) {
            Some(value) if !value.is_null() => value.text().map(|it| Some(it.into_owned())),
            _ => Some(None),
        };
        let values = member(VALUES).filter(|values| !values.is_null()).cloned();
        if values.as_ref().is_some_and(|values| !values.is_object()) {
            return None;
        }
        Some(ConfigRequest {
            component: text(COMPONENT)?,
            operation,
            values,
            here: member(HERE) == Some(&Json::TRUE),
            route: text(ROUTE)?,
        })
    }
}

/// Removes `here`. Only a conductor may set it.
pub fn remove_here(call: &mut Call) {
    set(call, HERE, None);
}

/// Removes everything that a conductor has added.
pub fn remove_address(call: &mut Call) {
    set(call, HERE, None);
    set(call, ROUTE, None);
}

/// Sets the mark of a conductor.
pub fn set_route(call: &mut Call, route: &str) {
    set(call, ROUTE, Some(&Json::string(route)));
}

/// Tells the receiver that it is meant. `inner` names the component inside of a nested conductor.
pub fn set_here(call: &mut Call, inner: Option<&str>) {
    set(call, COMPONENT, inner.map(Json::string).as_ref());
    set(call, HERE, Some(&Json::TRUE));
}

/// The result of a request without the values of options whose names say that they are secret. The member `hidden`
/// names these options.
pub fn without_secrets(result: &Json) -> Json {
    let Some(values) = result.member(VALUES).filter(Json::is_object) else { return result.clone() };
    let is_secret = |name: &String| is_secret_name(name) || has_secret_values(name);
    let secret: Vec<String> = values.keys().into_iter().filter(is_secret).collect();
    if secret.is_empty() {
        return result.clone();
    }
    let kept = secret.iter().fold(values, |values, name| values.with_at(&[name], None));
    let known = result.member(HIDDEN).map(|it| it.elements()).unwrap_or_default();
    let hidden: Vec<Json> =
        known.into_iter().chain(secret.iter().map(|name| Json::string(name))).collect();
    result.with_at(&[VALUES], Some(&kept)).with_at(&[HIDDEN], Some(&Json::array(&hidden)))
}

fn set(call: &mut Call, key: &str, value: Option<&Json>) {
    let Some(params) = &call.params else { return };
    if value.is_some() || params.member(key).is_some() {
        call.params = Some(params.with_at(&[key], value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(params: &str) -> Call {
        Call::new(CONFIG, Json::trusted(params.to_owned()))
    }

    #[test]
    fn a_request_has_a_known_operation_and_members_of_the_right_types() {
        let request = ConfigRequest::of(&call(
            r#"{"component":"a/b","op":"set","values":{"x":1},"more":[ ]}"#,
        ));
        let expected = ConfigRequest {
            component: Some("a/b".to_owned()),
            operation: Operation::Set,
            values: Some(Json::trusted(r#"{"x":1}"#)),
            here: false,
            route: None,
        };
        assert_eq!(request, Some(expected));
        let request = ConfigRequest::of(&call(r#"{"op":"get","component":null,"here":true}"#));
        assert!(request.is_some_and(|it| it.here && it.component.is_none()));
        for other in [
            "{}",
            "[]",
            "7",
            r#"{"component":"a"}"#,
            r#"{"op":"reset"}"#,
            r#"{"op":7}"#,
            r#"{"op":"get","component":7}"#,
            r#"{"op":"set","values":[]}"#,
            r#"{"op":"get","op":"set"}"#,
            r#"{"op":"get","o\u0070":"set"}"#,
            r#"{"op":"get","here":true,"here":true}"#,
        ] {
            assert_eq!(ConfigRequest::of(&call(other)), None, "{other}");
        }
        let other = Call::new("_proxy/configs", Json::trusted(r#"{"op":"get"}"#));
        assert_eq!(ConfigRequest::of(&other), None);
    }

    #[test]
    fn the_values_of_secret_options_are_left_out() {
        let shown = |text: &str| without_secrets(&Json::trusted(text.to_owned())).to_string();
        for same in [r#"{"values":{"a": 1,"max_tokens":7}}"#, "{}", r#"{"values":7}"#, "null"] {
            assert_eq!(shown(same), same);
        }
        assert_eq!(
            shown(r#"{"values":{"a":1.10,"api_key":"k","env":{"A":"b"}},"hidden":["b"]}"#),
            r#"{"values":{"a":1.10},"hidden":["b","api_key","env"]}"#
        );
    }

    #[test]
    fn the_rest_of_the_params_stays_as_it_is() {
        let mut request = call(r#"{ "x":1.10,"component":"n/a","op":"get"}"#);
        let before = request.clone();
        remove_address(&mut request);
        assert_eq!(request, before);
        set_route(&mut request, "7.1");
        set_here(&mut request, Some("a"));
        assert_eq!(
            request.params.as_ref().map(Json::as_str),
            Some(r#"{ "x":1.10,"component":"a","op":"get","route":"7.1","here":true}"#)
        );
        set_here(&mut request, None);
        assert!(ConfigRequest::of(&request).is_some_and(|it| it.here && it.component.is_none()));
        remove_address(&mut request);
        assert!(ConfigRequest::of(&request).is_some_and(|it| !it.here && it.route.is_none()));
        let mut twice = call(r#"{"here":true,"h\u0065re":true}"#);
        remove_here(&mut twice);
        assert_eq!(twice.params.as_ref().map(Json::as_str), Some("{}"));
    }
}

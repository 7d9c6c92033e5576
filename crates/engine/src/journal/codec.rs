//! Writes values as JSON and reads them back.
//!
//! The macros generate both directions from one list of fields or variants. They destructure a value completely, so a new
//! field of a type is a compile error until it is listed. The crates that define these types do not depend on the
//! journal.
//!
//! Enums have the format of `serde`: `"Stop"`, `{"ClientDisconnected":3}`, `{"Line":{"link":…,"line":…}}`.

use acp_wire::json::write_string;
use acp_wire::{Id, Json, Message};
use bytes::Bytes;

/// A value that can be written to a journal and read back. The error of `read` names the value that is wrong.
pub(super) trait Codec: Sized {
    fn write(&self, out: &mut Vec<u8>);
    fn read(json: &Json) -> Result<Self, String>;
}

/// Writes a JSON object.
pub(super) struct Object<'a> {
    out: &'a mut Vec<u8>,
    separator: u8,
}

impl<'a> Object<'a> {
    pub(super) fn begin(out: &'a mut Vec<u8>) -> Object<'a> {
        Object { out, separator: b'{' }
    }

    pub(super) fn member(&mut self, key: &str, value: &impl Codec) {
        self.out.push(self.separator);
        self.separator = b',';
        write_string(key, self.out);
        self.out.push(b':');
        value.write(self.out);
    }

    pub(super) fn end(self) {
        self.out.push(b'}');
    }
}

/// Reads a member of an object. A missing member is read as `null`.
pub(super) fn member<T: Codec>(json: &Json, key: &str) -> Result<T, String> {
    let value = json.member(key).unwrap_or(Json::NULL);
    T::read(&value).map_err(|why| within(key, &why))
}

/// Adds the name of the enclosing member to an error.
pub(super) fn within(key: &str, why: &str) -> String {
    format!("{key}: {why}")
}

/// Writes a variant and its content: `{"Name":…}`.
pub(super) fn write_variant(name: &str, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    out.push(b'{');
    write_string(name, out);
    out.push(b':');
    write(out);
    out.push(b'}');
}

/// Reads the name of a variant and its content.
pub(super) fn read_variant(json: &Json) -> Result<(String, Json), String> {
    if let Some(name) = json.text() {
        return Ok((name.into_owned(), Json::NULL));
    }
    json.members().into_iter().next().ok_or_else(|| expected("a variant", json))
}

/// The error for a value of the wrong type.
pub(super) fn expected(what: &str, json: &Json) -> String {
    let text = json.as_str();
    let end = text.floor_char_boundary(60);
    format!("{what} is expected, not {}{}", &text[..end], if end < text.len() { "…" } else { "" })
}

/// Implements [`Codec`] for a struct with named fields.
macro_rules! object {
    ($name:ident { $($field:ident),* $(,)? }) => {
        impl Codec for $name {
            fn write(&self, out: &mut Vec<u8>) {
                let $name { $($field),* } = self;
                let mut object = Object::begin(out);
                $(object.member(stringify!($field), $field);)*
                object.end();
            }

            fn read(json: &Json) -> Result<$name, String> {
                Ok($name { $($field: member(json, stringify!($field))?),* })
            }
        }
    };
}

/// Implements [`Codec`] for structs with one unnamed field.
macro_rules! newtype {
    ($($name:ident),*) => {$(
        impl Codec for $name {
            fn write(&self, out: &mut Vec<u8>) {
                self.0.write(out);
            }

            fn read(json: &Json) -> Result<$name, String> {
                Codec::read(json).map($name)
            }
        }
    )*};
}

/// Implements [`Codec`] for an enum: first the variants without content, then those with one value, then those with named
/// fields.
macro_rules! choice {
    ($name:ident
        [$($unit:ident),*]
        [$($one:ident),*]
        [$($many:ident { $($field:ident),* }),* $(,)?]
    ) => {
        impl Codec for $name {
            fn write(&self, out: &mut Vec<u8>) {
                match self {
                    $($name::$unit => write_string(stringify!($unit), out),)*
                    $($name::$one(value) => {
                        write_variant(stringify!($one), out, |out| value.write(out));
                    })*
                    $($name::$many { $($field),* } => {
                        write_variant(stringify!($many), out, |out| {
                            let mut object = Object::begin(out);
                            $(object.member(stringify!($field), $field);)*
                            object.end();
                        });
                    })*
                }
            }

            #[allow(unused_variables)] // where no variant has content
            fn read(json: &Json) -> Result<$name, String> {
                let (name, value) = read_variant(json)?;
                $(if name == stringify!($unit) {
                    return Ok($name::$unit);
                })*
                $(if name == stringify!($one) {
                    let value = Codec::read(&value);
                    return value.map($name::$one).map_err(|why| within(&name, &why));
                })*
                $(if name == stringify!($many) {
                    return Ok($name::$many { $($field: member(&value, stringify!($field))?),* });
                })*
                Err(expected(concat!("a ", stringify!($name)), json))
            }
        }
    };
}

pub(super) use {choice, newtype, object};

macro_rules! number {
    ($($name:ty),*) => {$(
        impl Codec for $name {
            fn write(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(self.to_string().as_bytes());
            }

            fn read(json: &Json) -> Result<$name, String> {
                json.as_str().parse().map_err(|_| expected(stringify!($name), json))
            }
        }
    )*};
}

number!(bool, u16, u32, u64, usize, i32);

impl Codec for String {
    fn write(&self, out: &mut Vec<u8>) {
        write_string(self, out);
    }

    fn read(json: &Json) -> Result<String, String> {
        json.text().map(|text| text.into_owned()).ok_or_else(|| expected("a string", json))
    }
}

/// A string if it is UTF-8, otherwise `{"hex":"…"}`.
impl Codec for Bytes {
    fn write(&self, out: &mut Vec<u8>) {
        match std::str::from_utf8(self) {
            Ok(text) => write_string(text, out),
            Err(_) => write_variant("hex", out, |out| {
                let digits: String = self.iter().map(|byte| format!("{byte:02x}")).collect();
                write_string(&digits, out);
            }),
        }
    }

    fn read(json: &Json) -> Result<Bytes, String> {
        if json.is_string() {
            return String::read(json).map(Bytes::from);
        }
        let digits: String = member(json, "hex")?;
        let pairs = digits.as_bytes().chunks(2).map(|pair| {
            let pair = std::str::from_utf8(pair).ok()?;
            u8::from_str_radix(pair, 16).ok()
        });
        let bytes: Option<Vec<u8>> = pairs.collect();
        bytes.map(Bytes::from).ok_or_else(|| expected("hexadecimal digits", json))
    }
}

/// The text as it is. A JSON text of the protocol has no line breaks.
impl Codec for Json {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_bytes());
    }

    fn read(json: &Json) -> Result<Json, String> {
        Ok(json.clone())
    }
}

impl Codec for Id {
    fn write(&self, out: &mut Vec<u8>) {
        self.json().write(out);
    }

    fn read(json: &Json) -> Result<Id, String> {
        Id::new(json.clone()).ok_or_else(|| expected("an id", json))
    }
}

/// The line of the message, as a string.
impl Codec for Message {
    fn write(&self, out: &mut Vec<u8>) {
        write_string(&self.to_line(), out);
    }

    fn read(json: &Json) -> Result<Message, String> {
        let line = String::read(json)?;
        Message::parse(&line.into()).map_err(|why| why.to_string())
    }
}

impl<T: Codec> Codec for Box<T> {
    fn write(&self, out: &mut Vec<u8>) {
        (**self).write(out);
    }

    fn read(json: &Json) -> Result<Box<T>, String> {
        T::read(json).map(Box::new)
    }
}

impl<T: Codec> Codec for Vec<T> {
    fn write(&self, out: &mut Vec<u8>) {
        out.push(b'[');
        for (index, value) in self.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            value.write(out);
        }
        out.push(b']');
    }

    fn read(json: &Json) -> Result<Vec<T>, String> {
        json.elements().iter().map(T::read).collect()
    }
}

/// `None` is `null`. No type that is used in an `Option` is itself written as `null`.
impl<T: Codec> Codec for Option<T> {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Some(value) => value.write(out),
            None => Json::NULL.write(out),
        }
    }

    fn read(json: &Json) -> Result<Option<T>, String> {
        if json.is_null() { Ok(None) } else { T::read(json).map(Some) }
    }
}

impl<T: Codec, E: Codec> Codec for Result<T, E> {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Ok(value) => write_variant("Ok", out, |out| value.write(out)),
            Err(error) => write_variant("Err", out, |out| error.write(out)),
        }
    }

    fn read(json: &Json) -> Result<Result<T, E>, String> {
        let (name, value) = read_variant(json)?;
        match name.as_str() {
            "Ok" => T::read(&value).map(Ok),
            "Err" => E::read(&value).map(Err),
            _ => Err(expected("Ok or Err", json)),
        }
    }
}

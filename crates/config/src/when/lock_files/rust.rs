//! `Cargo.lock`, versions 1 to 4.

use super::{Format, Language, tables};

pub(super) const FORMATS: [Format; 1] =
    [Format { file: "Cargo.lock", read: Some(|text| tables::read(Language::Rust, text)) }];

//! `conductor studio` without a browser: the real program, driven over its link.

mod access;
mod chat;
mod companion;
mod page;

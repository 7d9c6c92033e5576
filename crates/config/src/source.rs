//! The text of a configuration file, and errors that point at a place in it.

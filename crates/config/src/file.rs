//! The types of a configuration file, as it is written.

//! Finds the configuration file of a project.

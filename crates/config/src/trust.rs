//! Which projects' files the user trusts.

//! A named chain, with all layers merged.

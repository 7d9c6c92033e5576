//! The conditions on which a component is part of a chain.

//! From a text to a model, or to the list of everything that is wrong with it.

pub mod rule;

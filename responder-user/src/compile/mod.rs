//! From decisions to what the packet lane looks up: classes of clients, answer sets, and the check that both say
//! what was decided.

pub mod class;

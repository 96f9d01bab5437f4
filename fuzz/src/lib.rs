//! What must hold for any input, for the fuzz targets.
//!
//! The checks are in [`oracle`], which a test of `responder-user` compiles too and runs on the committed corpus.

pub mod oracle;

//! What must hold for any input: one file a target, each with `check`, which panics where it does not.
//!
//! | file | input | what must hold |
//! |---|---|---|
//! | [`parse`] | a DNS message | read as a reader of our own and hickory-proto read it |
//! | [`reply`] | how it comes, a DNS message | the reply is sound, readable and no longer than allowed |
//! | [`options`] | the options of an OPT record | read and answered as the RFCs say |
//! | [`config`] | a configuration file | a model that compiles, or problems with places |
//! | [`master`] | a master file | a zone whose records hickory-proto reads, or problems with places |

pub mod config;
pub mod master;
pub mod options;
pub mod parse;
pub mod reply;

#[path = "../../../responder-user/tests/lab/message.rs"]
pub mod message;
#[path = "../../../responder-user/tests/lab/read.rs"]
pub mod read;
#[path = "../../../responder-user/tests/lab/second.rs"]
pub mod second;
mod stage;

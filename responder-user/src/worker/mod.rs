//! Resolver workers: what the XDP program passes, and everything where there is none (design section 6).
//!
//! ```text
//! answer -> the table, by the functions of the XDP program
//!    |   `-> walk: zone (master), along aliases -> writer
//!    `-----> message: errors
//! ```

pub mod answer;
pub mod epoch;
pub mod master;
pub mod message;
#[doc(hidden)]
pub mod testing;
mod walk;
mod writer;
pub mod zone;

pub use self::{
    answer::{Names, Outcome, Transport},
    epoch::Epochs,
    zone::Zones,
};

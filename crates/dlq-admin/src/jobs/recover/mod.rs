//! Recovering: an endpoint gets from the archive what it has missed.
//!
//! There is no list of what an endpoint was not sent, so it is found out: [`survey`] walks the
//! archive and strikes off what the log of attempts or the place where it waits accounts for,
//! [`outcome`] asks the letters about the rest, and [`step`] sends what then is left, a batch at
//! a time, like a job about letters.

pub mod outcome;
pub mod step;
pub mod survey;
pub mod waiting;

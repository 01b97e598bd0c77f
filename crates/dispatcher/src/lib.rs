//! Makes the attempts.

//! The room of the operator.

//! Finds and runs nats-server.

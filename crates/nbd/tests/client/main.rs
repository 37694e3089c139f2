//! The server seen from clients, friendly and hostile.

mod common;
mod flags;
mod hostile;
mod protocol;

//! The server seen from clients, friendly and hostile.

mod common;
mod hostile;
mod protocol;

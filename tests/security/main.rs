//! What SECURITY.md promises, on real servers and with the real program: TLS in both directions, no more rights than
//! documented, and no password in any output.

#[path = "../support/mod.rs"]
mod support;

mod grants;
mod secrets;
mod servers;
mod shift;
mod tls;

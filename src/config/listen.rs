//! Where health and metrics are served.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::Admin;

impl Admin {
    /// The address to listen on; `None` when it is off. A port without a host is on loopback.
    ///
    /// # Errors
    /// What is wrong with the setting.
    pub fn address(&self) -> Result<Option<SocketAddr>, String> {
        let text = self.listen.trim();
        if text.is_empty() {
            return Ok(None);
        }
        let loopback = |port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
        let port = text.strip_prefix("localhost:").or_else(|| text.strip_prefix(':')).unwrap_or(text);
        let address = port.parse().map(loopback).or_else(|_| text.parse());
        address.map(Some).map_err(|_| {
            format!(
                "admin.listen is {text:?}: it must be a port (on loopback), localhost with a port, or an IP address with one, \
                 such as 0.0.0.0:9464 or [::]:9464"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(listen: &str) -> Result<Option<String>, String> {
        Admin { listen: listen.into() }.address().map(|address| address.map(|address| address.to_string()))
    }

    #[test]
    fn a_port_alone_is_on_loopback_and_nothing_is_off() {
        assert_eq!(address(""), Ok(None));
        for loopback in ["9464", ":9464", "localhost:9464", "127.0.0.1:9464"] {
            assert_eq!(address(loopback), Ok(Some("127.0.0.1:9464".into())), "{loopback}");
        }
        assert_eq!(address("0.0.0.0:9464"), Ok(Some("0.0.0.0:9464".into())));
        assert_eq!(address("[::]:0"), Ok(Some("[::]:0".into())));
    }

    #[test]
    fn what_is_no_address_is_refused_by_the_keys_name() {
        for wrong in ["127.0.0.1", "http://127.0.0.1:9464", "worker-1:9464", "70000", ":x", "-1"] {
            assert!(address(wrong).is_err_and(|fault| fault.contains("admin.listen")), "{wrong}");
        }
    }
}

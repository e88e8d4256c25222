//! `TCP_NODELAY` for database connections, which sqlx 0.9.0 does not set (its issue 4335, mended after that release).
//!
//! Without it a statement that is larger than one segment waits up to 40 ms for the server's delayed acknowledgement: more
//! than a commit takes. The driver does not show its socket, so the option is set on each TCP socket of this process,
//! where it does no harm: every protocol spoken here sends whole messages. To be removed with sqlx 0.9.1.

#[cfg(unix)]
use std::mem::ManuallyDrop;
#[cfg(unix)]
use std::net::TcpStream;
#[cfg(unix)]
use std::os::fd::{FromRawFd, RawFd};

/// Sets it on every open TCP socket of this process; returns on how many.
///
/// Best effort, since nothing but speed depends on it: what is no TCP socket refuses the option, as does a socket that was
/// closed meanwhile. A descriptor that was closed and opened again meanwhile is another socket of this process.
#[cfg(unix)]
pub fn set_on_all_sockets() -> usize {
    // Linux and macOS list a process's own descriptors here.
    let Ok(descriptors) = std::fs::read_dir("/dev/fd") else { return 0 };
    let number = |entry: std::fs::DirEntry| entry.file_name().to_str()?.parse::<RawFd>().ok();
    descriptors.filter_map(|entry| entry.ok().and_then(number)).filter(|descriptor| set(*descriptor)).count()
}

/// Nothing to do where descriptors are not listed.
#[cfg(not(unix))]
pub fn set_on_all_sockets() -> usize {
    0
}

#[cfg(unix)]
fn set(descriptor: RawFd) -> bool {
    // SAFETY: the value is never dropped, so the descriptor is neither owned nor closed here; the only use made of it is
    // one setsockopt, which the kernel refuses for anything that is no open TCP socket.
    let stream = ManuallyDrop::new(unsafe { TcpStream::from_raw_fd(descriptor) });
    stream.set_nodelay(true).is_ok()
}

#[cfg(all(test, unix))]
mod tests {
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_connection_that_is_open_no_longer_waits() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
        let stream = TcpStream::connect(listener.local_addr().expect("an address")).expect("connect");
        assert!(!stream.nodelay().expect("the option"));
        assert!(super::set_on_all_sockets() >= 1);
        assert!(stream.nodelay().expect("the option"));
    }
}

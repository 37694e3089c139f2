//! Sockets, and a thread for each client.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::client::{Ended, serve_client};
use crate::export::Export;
use crate::pace::{Latency, Pacer};
use crate::wire::Wire;

/// Where clients connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A socket file. One that nobody listens on is replaced, nothing else is.
    Unix(PathBuf),
    /// A TCP port; 0 takes a free one. Anybody who reaches it can read and write the device.
    Tcp(IpAddr, u16),
}

impl fmt::Display for Endpoint {
    /// As an NBD URI.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "nbd+unix:///?socket={}", path.display()),
            Self::Tcp(address, port) => write!(f, "nbd://{}", SocketAddr::new(*address, *port)),
        }
    }
}

/// Limits of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerOptions {
    /// Clients at a time; more are turned away.
    pub clients_max: usize,
    /// How long a client may leave something half sent, or half taken.
    pub patience: Duration,
    /// Whether replies take the simulated time.
    pub latency: Latency,
    /// End with the last client.
    pub once: bool,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self { clients_max: 64, patience: Duration::from_secs(30), latency: Latency::None, once: false }
    }
}

/// How often what waits looks whether the server is to end.
const GLANCE: Duration = Duration::from_millis(50);

enum Listener {
    Unix(UnixListener, PathBuf),
    Tcp(TcpListener),
}

/// A server that listens.
pub struct Server {
    listener: Listener,
    options: ServerOptions,
}

impl Server {
    /// Listens. Errors: the address is in use, or not ours.
    pub fn bind(endpoint: &Endpoint, options: ServerOptions) -> io::Result<Self> {
        let listener = match endpoint {
            Endpoint::Unix(path) => {
                remove_dead_socket(path)?;
                let listener = UnixListener::bind(path)?;
                listener.set_nonblocking(true)?;
                Listener::Unix(listener, path.clone())
            }
            Endpoint::Tcp(address, port) => {
                let listener = TcpListener::bind(SocketAddr::new(*address, *port))?;
                listener.set_nonblocking(true)?;
                Listener::Tcp(listener)
            }
        };
        Ok(Self { listener, options })
    }

    /// Where it listens, with the port that was found.
    pub fn endpoint(&self) -> io::Result<Endpoint> {
        Ok(match &self.listener {
            Listener::Unix(_, path) => Endpoint::Unix(path.clone()),
            Listener::Tcp(listener) => {
                let address = listener.local_addr()?;
                Endpoint::Tcp(address.ip(), address.port())
            }
        })
    }

    /// Serves until `stop`, or with [`ServerOptions::once`] until the last client went. `told` hears how each client ended.
    /// Flushes at the end; its error is the result.
    pub fn run(
        &self,
        export: &Export,
        stop: &AtomicBool,
        told: &(dyn Fn(&Ended) + Sync),
    ) -> Result<(), nandkit_block::BlockError> {
        let clients = AtomicUsize::new(0);
        let mut served = false;
        std::thread::scope(|scope| {
            while !stop.load(Ordering::Relaxed) {
                let socket = match self.accept() {
                    Ok(socket) => socket,
                    Err(_) => {
                        if self.options.once && served && clients.load(Ordering::Acquire) == 0 {
                            break;
                        }
                        std::thread::sleep(GLANCE);
                        continue;
                    }
                };
                if clients.load(Ordering::Acquire) >= self.options.clients_max {
                    continue;
                }
                clients.fetch_add(1, Ordering::AcqRel);
                served = true;
                let clients = &clients;
                let work = move || {
                    told(&self.serve(socket, export, stop));
                    clients.fetch_sub(1, Ordering::AcqRel);
                };
                if std::thread::Builder::new().stack_size(256 << 10).spawn_scoped(scope, work).is_err() {
                    // No thread for it: the socket went with the closure, and the client is turned away.
                    clients.fetch_sub(1, Ordering::AcqRel);
                }
            }
        });
        export.flush().map(|_| ())
    }

    fn accept(&self) -> io::Result<Socket> {
        let socket = match &self.listener {
            Listener::Unix(listener, _) => {
                let (socket, _) = listener.accept()?;
                socket.set_nonblocking(false)?;
                Socket::Unix(socket)
            }
            Listener::Tcp(listener) => {
                let (socket, _) = listener.accept()?;
                socket.set_nonblocking(false)?;
                socket.set_nodelay(true)?;
                Socket::Tcp(socket)
            }
        };
        socket.set_timeouts(self.options.patience)?;
        Ok(socket)
    }

    fn serve(&self, socket: Socket, export: &Export, stop: &AtomicBool) -> Ended {
        let stopped = || stop.load(Ordering::Relaxed);
        if self.options.latency == Latency::None {
            return serve_client(&mut Wire::new(socket, self.options.patience), export, None, &stopped);
        }
        let Ok(replies) = socket.another() else {
            return Ended::Dropped("the socket cannot be shared".to_string());
        };
        let pacer = Pacer::default();
        std::thread::scope(|scope| {
            scope.spawn(|| pacer.run(replies));
            let ended = serve_client(&mut Wire::new(socket, self.options.patience), export, Some(&pacer), &stopped);
            pacer.close();
            ended
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Listener::Unix(_, path) = &self.listener {
            // Nothing listens on it any more; that it could not be removed is no reason to fail.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Removes a socket file whose server is gone; whatever else is there stays, and binding fails.
fn remove_dead_socket(path: &Path) -> io::Result<()> {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    if is_socket && UnixStream::connect(path).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused) {
        std::fs::remove_file(path)?;
    }
    Ok(())
}

enum Socket {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Socket {
    /// Reads give up from time to time, so that the server can end; writes when the client takes nothing for too long.
    fn set_timeouts(&self, patience: Duration) -> io::Result<()> {
        let (read, write) = (Some(Duration::from_millis(200)), Some(patience));
        match self {
            Self::Unix(socket) => socket.set_read_timeout(read).and_then(|()| socket.set_write_timeout(write)),
            Self::Tcp(socket) => socket.set_read_timeout(read).and_then(|()| socket.set_write_timeout(write)),
        }
    }

    fn another(&self) -> io::Result<Self> {
        Ok(match self {
            Self::Unix(socket) => Self::Unix(socket.try_clone()?),
            Self::Tcp(socket) => Self::Tcp(socket.try_clone()?),
        })
    }
}

impl Read for Socket {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(socket) => socket.read(into),
            Self::Tcp(socket) => socket.read(into),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Unix(socket) => socket.write(bytes),
            Self::Tcp(socket) => socket.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

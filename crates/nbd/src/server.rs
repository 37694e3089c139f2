//! The server: sockets, and a thread for each client.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::client::{Ended, serve_client};
use crate::export::Export;
use crate::pace::{Latency, Pacer};
use crate::wire::Wire;

/// Where clients connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A socket file. An existing socket without a listener is replaced; other files are not.
    Unix(PathBuf),
    /// A TCP port; 0 chooses a free one. Anyone who can reach it can read and write the device.
    Tcp(IpAddr, u16),
}

impl fmt::Display for Endpoint {
    /// Writes an NBD URI.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => {
                write!(f, "nbd+unix:///?socket=")?;
                path.as_os_str().as_bytes().iter().try_for_each(|&byte| match byte {
                    b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                        write!(f, "{}", char::from(byte))
                    }
                    _ => write!(f, "%{byte:02X}"),
                })
            }
            Self::Tcp(address, port) => write!(f, "nbd://{}", SocketAddr::new(*address, *port)),
        }
    }
}

/// Stack size of a client's thread in bytes.
const STACK: usize = 256 << 10;

/// Limits of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerOptions {
    /// Largest number of clients at a time; more are refused.
    pub clients_max: usize,
    /// How long a client may leave a message half sent or half received.
    pub patience: Duration,
    /// Whether replies are delayed by the simulated time.
    pub latency: Latency,
    /// Whether to stop when the last client disconnects.
    pub once: bool,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self { clients_max: 64, patience: Duration::from_secs(30), latency: Latency::None, once: false }
    }
}

/// Interval at which waiting threads check whether the server should stop.
const GLANCE: Duration = Duration::from_millis(50);
/// Time for clients to finish their requests when the server stops, before they are cut off.
const GRACE: Duration = Duration::from_secs(2);
/// Longest blocking time of a send call before the client's patience is checked.
const SENDING: Duration = Duration::from_millis(500);

/// The connected clients, each with a function that cuts it off.
#[derive(Default)]
struct Connected {
    cuts: Mutex<(u64, Vec<(u64, Cut)>)>,
}

type Cut = Box<dyn Fn() + Send>;

/// Removes a client from the connected ones on drop.
struct ConnectionSlot<'a>(&'a Connected, u64);

impl Connected {
    fn count(&self) -> usize {
        self.cuts.lock().unwrap_or_else(PoisonError::into_inner).1.len()
    }

    fn enter(&self, cut: Cut) -> ConnectionSlot<'_> {
        let mut cuts = self.cuts.lock().unwrap_or_else(PoisonError::into_inner);
        let number = cuts.0;
        cuts.0 += 1;
        cuts.1.push((number, cut));
        ConnectionSlot(self, number)
    }

    /// Waits for all clients to end, and cuts off the remaining ones.
    fn end(&self) {
        let began = Instant::now();
        while self.count() > 0 && began.elapsed() < GRACE {
            std::thread::sleep(Duration::from_millis(5));
        }
        let cuts = self.cuts.lock().unwrap_or_else(PoisonError::into_inner);
        cuts.1.iter().for_each(|(_, cut)| cut());
    }
}

impl Drop for ConnectionSlot<'_> {
    fn drop(&mut self) {
        let mut cuts = self.0.cuts.lock().unwrap_or_else(PoisonError::into_inner);
        cuts.1.retain(|(number, _)| *number != self.1);
    }
}

enum Listener {
    Unix(UnixListener, PathBuf),
    Tcp(TcpListener),
}

/// A listening server.
pub struct Server {
    listener: Listener,
    options: ServerOptions,
}

impl Server {
    /// Starts to listen. Errors: the address is in use, or not one of this machine.
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

    /// The endpoint, with the actual port.
    pub fn endpoint(&self) -> io::Result<Endpoint> {
        Ok(match &self.listener {
            Listener::Unix(_, path) => Endpoint::Unix(path.clone()),
            Listener::Tcp(listener) => {
                let address = listener.local_addr()?;
                Endpoint::Tcp(address.ip(), address.port())
            }
        })
    }

    /// Serves until `stop` is set, or with [`ServerOptions::once`] until the last client
    /// disconnects. `told` is called with the end of each client. When the server stops, clients
    /// have two seconds to finish their requests. Flushes at the end and returns the error of that.
    pub fn run(
        &self,
        export: &Export,
        stop: &AtomicBool,
        told: &(dyn Fn(&Ended) + Sync),
    ) -> Result<(), nandkit_block::BlockError> {
        let connected = Connected::default();
        let mut served = false;
        std::thread::scope(|scope| {
            while !stop.load(Ordering::Relaxed) {
                let socket = match self.accept() {
                    Ok(socket) => socket,
                    Err(_) => {
                        if self.options.once && served && connected.count() == 0 {
                            break;
                        }
                        std::thread::sleep(GLANCE);
                        continue;
                    }
                };
                if connected.count() >= self.options.clients_max {
                    told(&Ended::TurnedAway);
                    continue;
                }
                served = true;
                let Ok((pacer, cut)) = self.prepare(&socket) else { continue };
                let place = connected.enter(cut);
                let work = move || {
                    let ended = catch_unwind(AssertUnwindSafe(|| self.serve(socket, pacer.as_deref(), export, stop)));
                    told(&ended.unwrap_or_else(|_| {
                        export.break_off();
                        Ended::Dropped("an internal error during a request; nothing more is done".to_string())
                    }));
                    drop(place);
                };
                // If no thread can be started, the closure drops the socket and the client is
                // refused.
                if std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work).is_err() {
                    told(&Ended::TurnedAway);
                }
            }
            connected.end();
        });
        export.flush().map(|_| ())
    }

    /// The pacer of a client's replies, if any, and the function that cuts it off.
    fn prepare(&self, socket: &Socket) -> io::Result<(Option<Arc<Pacer>>, Cut)> {
        let pacer = (self.options.latency == Latency::Real).then(|| Arc::new(Pacer::default()));
        let (other, paced) = (socket.another()?, pacer.clone());
        let cut = Box::new(move || {
            if let Some(pacer) = &paced {
                pacer.break_off();
            }
            // A failure means that it is already shut down.
            let _ = other.shutdown();
        });
        Ok((pacer, cut))
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
        socket.set_timeouts()?;
        Ok(socket)
    }

    fn serve(&self, socket: Socket, pacer: Option<&Pacer>, export: &Export, stop: &AtomicBool) -> Ended {
        let (stopped, patience) = (|| stop.load(Ordering::Relaxed), self.options.patience);
        let Some(pacer) = pacer else {
            return serve_client(&mut Wire::new(socket, patience), export, None, &stopped);
        };
        let Ok(mut replies) = socket.another() else {
            return Ended::Dropped("the socket cannot be shared".to_string());
        };
        std::thread::scope(|scope| {
            let send = || {
                pacer.run(&mut replies, patience);
                // A client that accepts no replies gets no more requests served.
                let _ = replies.shutdown();
            };
            if std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, send).is_err() {
                return Ended::TurnedAway;
            }
            // Close it even after a panic, since the other thread waits for that.
            let _closed = Closed(pacer);
            serve_client(&mut Wire::new(socket, patience), export, Some(pacer), &stopped)
        })
    }
}

/// Closes the pacer on drop.
struct Closed<'a>(&'a Pacer);

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Listener::Unix(_, path) = &self.listener {
            // A leftover socket file does no harm.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Removes a socket file without a server. Any other file is kept, and binding fails.
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
    /// Sets timeouts of reads and writes, so that deadlines are checked.
    fn set_timeouts(&self) -> io::Result<()> {
        let (read, write) = (Some(Duration::from_millis(200)), Some(SENDING));
        match self {
            Self::Unix(socket) => socket.set_read_timeout(read).and_then(|()| socket.set_write_timeout(write)),
            Self::Tcp(socket) => socket.set_read_timeout(read).and_then(|()| socket.set_write_timeout(write)),
        }
    }

    /// Shuts down both directions, for all copies of the socket.
    fn shutdown(&self) -> io::Result<()> {
        match self {
            Self::Unix(socket) => socket.shutdown(Shutdown::Both),
            Self::Tcp(socket) => socket.shutdown(Shutdown::Both),
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

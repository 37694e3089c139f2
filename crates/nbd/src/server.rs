//! Sockets, and a thread for each client.

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
    /// A socket file. One that nobody listens on is replaced, nothing else is.
    Unix(PathBuf),
    /// A TCP port; 0 takes a free one. Anybody who reaches it can read and write the device.
    Tcp(IpAddr, u16),
}

impl fmt::Display for Endpoint {
    /// As an NBD URI.
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

/// Bytes of the stack of a client's thread.
const STACK: usize = 256 << 10;

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
/// How long clients have to end what they are in the middle of when the server is told to end; then
/// they are cut off.
const GRACE: Duration = Duration::from_secs(2);
/// How long a call that sends may block before its client's patience is looked at.
const SENDING: Duration = Duration::from_millis(500);

/// The clients that are connected, each with how to cut it off.
#[derive(Default)]
struct Connected {
    cuts: Mutex<(u64, Vec<(u64, Cut)>)>,
}

type Cut = Box<dyn Fn() + Send>;

/// A client's place among the connected, until it is dropped.
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

    /// Waits for them to end, and cuts those off that do not.
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

    /// Serves until `stop`, or with [`ServerOptions::once`] until the last client went. `told`
    /// hears how each client ended. Clients that are in the middle of something when it is to stop
    /// have two seconds. Flushes at the end; its error is the result.
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
                        Ended::Dropped("a request ended in a bug of this program; nothing more is done".to_string())
                    }));
                    drop(place);
                };
                // Where there is no thread for it, the socket goes with the closure: the client is
                // turned away.
                if std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work).is_err() {
                    told(&Ended::TurnedAway);
                }
            }
            connected.end();
        });
        export.flush().map(|_| ())
    }

    /// What paces a client's replies, if anything does, and how the client is cut off.
    fn prepare(&self, socket: &Socket) -> io::Result<(Option<Arc<Pacer>>, Cut)> {
        let pacer = (self.options.latency == Latency::Real).then(|| Arc::new(Pacer::default()));
        let (other, paced) = (socket.another()?, pacer.clone());
        let cut = Box::new(move || {
            if let Some(pacer) = &paced {
                pacer.break_off();
            }
            // That it cannot be shut means that it is shut already.
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
                // Whoever takes no replies has nothing more to ask, either.
                let _ = replies.shutdown();
            };
            if std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, send).is_err() {
                return Ended::TurnedAway;
            }
            // Also where a request ends in a panic: the other thread waits for it.
            let _closed = Closed(pacer);
            serve_client(&mut Wire::new(socket, patience), export, Some(pacer), &stopped)
        })
    }
}

/// Closes the pacer when it goes.
struct Closed<'a>(&'a Pacer);

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        self.0.close();
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
    /// Both give up from time to time, so that the client's patience is looked at.
    fn set_timeouts(&self) -> io::Result<()> {
        let (read, write) = (Some(Duration::from_millis(200)), Some(SENDING));
        match self {
            Self::Unix(socket) => socket.set_read_timeout(read).and_then(|()| socket.set_write_timeout(write)),
            Self::Tcp(socket) => socket.set_read_timeout(read).and_then(|()| socket.set_write_timeout(write)),
        }
    }

    /// Ends both directions, for all who share it.
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

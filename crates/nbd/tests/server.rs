//! The server as a whole: ends in time whatever clients do, bears thousands of them, and outlives a
//! device that fails in the middle of a request.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nandkit_block::{BlockDevice, BlockGeometry, RamDevice, Result, ServiceTime};
use nandkit_nbd::protocol::{OPTION_MAGIC, REQUEST_MAGIC, command, option};
use nandkit_nbd::{Ended, Endpoint, Export, Latency, Server, ServerOptions};
use nandkit_units::{Context, Done, Lba, Nanos, Payload, ReadInto};

const SECTORS: u64 = 16 << 10;

fn ram() -> RamDevice {
    RamDevice::with_sectors(512, SECTORS).unwrap()
}

/// Serves while `clients` runs; what came of the last flush, and how each client ended.
fn served(
    device: Box<dyn BlockDevice>,
    options: ServerOptions,
    clients: impl FnOnce(&Path, &AtomicBool),
) -> (Result<()>, Vec<Ended>) {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("disk");
    let server = Server::bind(&Endpoint::Unix(socket.clone()), options).unwrap();
    let export = Export::new(device, "disk", "a disk").from_time(Nanos::ZERO, options.latency);
    let (stop, ended) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    let tell = |end: &Ended| {
        let end = match end {
            Ended::Disconnected => Ended::Disconnected,
            Ended::Closed => Ended::Closed,
            Ended::Dropped(why) => Ended::Dropped(why.clone()),
            Ended::Stopped => Ended::Stopped,
            Ended::TurnedAway => Ended::TurnedAway,
        };
        ended.lock().unwrap().push(end);
    };
    let flushed = std::thread::scope(|scope| {
        let running = scope.spawn(|| server.run(&export, &stop, &tell));
        clients(&socket, &stop);
        stop.store(true, Ordering::Relaxed);
        running.join().unwrap()
    });
    (flushed, ended.into_inner().unwrap())
}

/// A client that is ready for requests.
fn ready(mut socket: impl Read + Write) -> impl Read + Write {
    let mut greeting = [0; 18];
    socket.read_exact(&mut greeting).unwrap();
    socket.write_all(&3u32.to_be_bytes()).unwrap();
    socket.write_all(&[&OPTION_MAGIC.to_be_bytes()[..], &option::EXPORT_NAME.to_be_bytes(), &[0; 4]].concat()).unwrap();
    let mut export = [0; 10];
    socket.read_exact(&mut export).unwrap();
    assert_eq!(u64::from_be_bytes(export[..8].try_into().unwrap()), SECTORS * 512);
    socket
}

fn request(command: u16, cookie: u64, offset: u64, length: u32) -> Vec<u8> {
    let head = [&REQUEST_MAGIC.to_be_bytes()[..], &[0, 0], &command.to_be_bytes(), &cookie.to_be_bytes()].concat();
    [&head[..], &offset.to_be_bytes(), &length.to_be_bytes()].concat()
}

/// The error and the cookie of a simple reply.
fn reply(socket: &mut impl Read) -> (u32, u64) {
    let mut bytes = [0; 16];
    socket.read_exact(&mut bytes).unwrap();
    (u32::from_be_bytes(bytes[4..8].try_into().unwrap()), u64::from_be_bytes(bytes[8..].try_into().unwrap()))
}

fn connect(path: &Path) -> UnixStream {
    UnixStream::connect(path).unwrap()
}

/// Far more than the server's grace, far less than the clients' patience: what a loaded machine may
/// take.
const SOON: Duration = Duration::from_secs(60);
const PATIENT: ServerOptions =
    ServerOptions { clients_max: 8, patience: Duration::from_secs(600), latency: Latency::None, once: false };

#[test]
fn a_server_ends_although_clients_are_in_the_middle_of_something() {
    for latency in [Latency::None, Latency::Real] {
        let device = ram().with_service_time(ServiceTime { per_request: Nanos::from_secs(3600), per_byte_ps: 0 });
        let mut asked = Instant::now();
        let (flushed, ended) = served(Box::new(device), ServerOptions { latency, ..PATIENT }, |path, _| {
            let silent = connect(path);
            let mut half = ready(connect(path));
            half.write_all(&request(command::WRITE, 1, 0, 1 << 20)).unwrap();
            half.write_all(&[1; 1000]).unwrap();
            let mut dripping = connect(path).try_clone().unwrap();
            std::thread::spawn(move || while dripping.write_all(&[0]).is_ok() {});
            // A reply that is due in an hour.
            let mut waiting = ready(connect(path));
            waiting.write_all(&request(command::READ, 2, 0, 512)).unwrap();
            // One that takes no replies.
            let mut full = ready(connect(path));
            (0..64).for_each(|_| full.write_all(&request(command::READ, 3, 0, 1 << 20)).unwrap());
            std::thread::sleep(Duration::from_millis(100));
            asked = Instant::now();
            // They stay connected: the server cuts them off.
            std::mem::forget((silent, half, waiting, full));
        });
        flushed.unwrap();
        assert!(asked.elapsed() < SOON, "{latency:?}: {:?}", asked.elapsed());
        assert_eq!(ended.len(), 5, "{latency:?}: {ended:?}");
    }
}

#[test]
fn thousands_of_connections_keep_nobody_out_who_is_in() {
    let (flushed, ended) = served(Box::new(ram()), PATIENT, |path, _| {
        let mut good = ready(connect(path));
        let mut idle = Vec::new();
        for number in 0..3000u32 {
            // The listener's queue may be full for a moment.
            match UnixStream::connect(path) {
                Ok(socket) => idle.push(socket),
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
            }
            if idle.len() > 500 {
                idle.clear();
            }
            if number % 100 == 0 {
                good.write_all(&request(command::READ, u64::from(number), 0, 512)).unwrap();
                assert_eq!(reply(&mut good), (0, u64::from(number)));
                good.read_exact(&mut [0; 512]).unwrap();
            }
        }
        drop(idle);
        // Room again for somebody new, once those are gone.
        let began = Instant::now();
        while began.elapsed() < SOON {
            let mut socket = connect(path);
            if socket.read_exact(&mut [0; 18]).is_ok() {
                return;
            }
        }
        panic!("nobody new gets in");
    });
    flushed.unwrap();
    let turned_away = ended.iter().filter(|ended| **ended == Ended::TurnedAway).count();
    assert!(turned_away > 100, "{turned_away} of {}", ended.len());
}

/// A device with a bug at one sector.
struct Faulty(RamDevice);

impl BlockDevice for Faulty {
    fn geometry(&self) -> &BlockGeometry {
        self.0.geometry()
    }

    fn read(&self, context: &Context, at: Lba, into: ReadInto<'_>) -> Result<Done> {
        self.0.read(context, at, into)
    }

    fn write(&mut self, context: &Context, at: Lba, data: Payload<'_>) -> Result<Done> {
        assert_ne!(at, Lba(7), "a planted bug");
        self.0.write(context, at, data)
    }

    fn flush(&mut self, context: &Context) -> Result<Done> {
        self.0.flush(context)
    }
}

#[test]
fn a_bug_in_a_request_ends_that_client_and_everything_that_would_change_the_device() {
    let (flushed, ended) = served(Box::new(Faulty(ram())), PATIENT, |path, _| {
        let mut other = ready(connect(path));
        let mut unlucky = ready(connect(path));
        unlucky.write_all(&[request(command::WRITE, 1, 7 * 512, 512), vec![1; 512]].concat()).unwrap();
        assert_eq!(unlucky.read(&mut [0; 16]).unwrap_or(0), 0, "a reply to a request that was not done");
        for (number, asked) in [command::READ, command::FLUSH].into_iter().enumerate() {
            let number = number as u64;
            let length = if asked == command::READ { 512 } else { 0 };
            other.write_all(&request(asked, number, 0, length)).unwrap();
            assert_eq!(reply(&mut other), (5, number), "EIO");
        }
        other.write_all(&[request(command::WRITE, 9, 0, 512), vec![1; 512]].concat()).unwrap();
        assert_eq!(reply(&mut other), (5, 9));
    });
    assert!(flushed.unwrap_err().to_string().contains("was interrupted"));
    assert!(
        ended.iter().any(|ended| matches!(ended, Ended::Dropped(why) if why.contains("an internal error"))),
        "{ended:?}"
    );
}

#[test]
fn requests_take_the_simulated_time() {
    let service = ServiceTime { per_request: Nanos::from_millis(20), per_byte_ps: 0 };
    let options = ServerOptions { latency: Latency::Real, ..PATIENT };
    let (flushed, _) = served(Box::new(ram().with_service_time(service)), options, |path, _| {
        let mut client = ready(connect(path));
        let began = Instant::now();
        // Together on their way; the device does one after the other.
        let all: Vec<u8> = (0..10).flat_map(|number| request(command::READ, number, number * 4096, 4096)).collect();
        client.write_all(&all).unwrap();
        for number in 0..10 {
            assert_eq!(reply(&mut client), (0, number));
            client.read_exact(&mut [0; 4096]).unwrap();
            assert!(began.elapsed() >= Duration::from_millis(20 * (number + 1)), "{number}: {:?}", began.elapsed());
        }
        // A long one in parts.
        client.write_all(&request(command::READ, 77, 0, 5 << 20)).unwrap();
        assert_eq!(reply(&mut client), (0, 77));
        client.read_exact(&mut vec![1; 5 << 20]).unwrap();
        client.write_all(&request(command::FLUSH, 78, 0, 0)).unwrap();
        assert_eq!(reply(&mut client), (0, 78));
    });
    flushed.unwrap();
}

#[test]
fn a_port_of_this_machine_works_as_a_socket_file_does() {
    let server = Server::bind(&Endpoint::Tcp(Ipv4Addr::LOCALHOST.into(), 0), PATIENT).unwrap();
    let Endpoint::Tcp(address, port) = server.endpoint().unwrap() else { panic!("no port") };
    let (export, stop) = (Export::new(Box::new(ram()), "disk", "a disk"), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let running = scope.spawn(|| server.run(&export, &stop, &|_| {}));
        let mut client = ready(TcpStream::connect((address, port)).unwrap());
        client.write_all(&[request(command::WRITE, 1, 512, 512), vec![3; 512]].concat()).unwrap();
        assert_eq!(reply(&mut client), (0, 1));
        // One client's flush is everybody's.
        let mut second = ready(TcpStream::connect((address, port)).unwrap());
        second.write_all(&request(command::FLUSH, 2, 0, 0)).unwrap();
        assert_eq!(reply(&mut second), (0, 2));
        second.write_all(&request(command::READ, 3, 512, 512)).unwrap();
        assert_eq!(reply(&mut second), (0, 3));
        let mut found = [0; 512];
        second.read_exact(&mut found).unwrap();
        assert_eq!(found, [3; 512]);
        stop.store(true, Ordering::Relaxed);
        running.join().unwrap().unwrap();
    });
}

#[test]
fn a_socket_with_any_name_is_told_as_a_uri() {
    let told = |path: &str| Endpoint::Unix(path.into()).to_string();
    assert_eq!(told("/run/disk-1.sock"), "nbd+unix:///?socket=/run/disk-1.sock");
    assert_eq!(told("/a b/ü&c"), "nbd+unix:///?socket=/a%20b/%C3%BC%26c");
}

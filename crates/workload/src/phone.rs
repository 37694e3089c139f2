//! `phone`: a cell phone with call logs, messages, an address book and appointments, each change a
//! small transaction.

use nandkit_units::random::Random;

use crate::embedded::{TransactionFiles, Transactions, fits};
use crate::error::{Result, SpecError};
use crate::operation::FileSlot;
use crate::parameters::parameters;
use crate::script::{CyclicFile, Script};

parameters! {
    /// Parameters of `phone`. Each transaction is a day, whose events come in random order.
    pub struct Phone as "phone" {
        /// Days; assumption.
        days: u64 = 365, 1..=1 << 32;
        /// Records of each of the three call logs; when one is full, its oldest record is
        /// overwritten; assumption.
        call_records: u64 = 20, 1..=1 << 20;
        /// Bytes of a call record; assumption: number, time, length.
        call_size: u64 = 15, 1..=1 << 16;
        /// Messages in each of the two boxes; when one is full, its oldest message is overwritten;
        /// assumption.
        message_records: u64 = 20, 1..=1 << 20;
        /// Bytes of a message; assumption: the 140 octets of a short message and its header.
        message_size: u64 = 160, 1..=1 << 16;
        /// Entries of the address book; assumption.
        addresses: u64 = 200, 1..=1 << 20;
        /// Bytes of an entry of the address book; assumption.
        address_size: u64 = 64, 1..=1 << 16;
        /// Largest number of appointments at one time; assumption.
        appointments: u64 = 50, 1..=1 << 20;
        /// Least bytes of an appointment; assumption.
        appointment_min: u64 = 30, 1..=1 << 16;
        /// Most bytes of an appointment; assumption.
        appointment_max: u64 = 100, 1..=1 << 16;
        /// Messages received per day; assumption.
        messages_in: u64 = 3, 0..=10_000;
        /// Messages sent per day; assumption.
        messages_out: u64 = 3, 0..=10_000;
        /// Calls received per day; assumption.
        calls_in: u64 = 10, 0..=10_000;
        /// Calls dialled per day; assumption.
        calls_out: u64 = 10, 0..=10_000;
        /// Calls missed per day; assumption.
        calls_missed: u64 = 5, 0..=10_000;
        /// Appointments made per day, and as many deleted; assumption.
        appointments_new: u64 = 5, 0..=10_000;
        /// Entries of the address book edited per day; assumption.
        address_edits: u64 = 1, 0..=10_000;
        /// Whether each event is made durable at once; the paper is about transactions.
        sync: bool = true, ();
    }
}

impl Phone {
    pub(crate) fn check(&self) -> std::result::Result<(), SpecError> {
        if self.appointment_max < self.appointment_min {
            let detail = "appointment_max must not be below appointment_min".to_string();
            return Err(SpecError::Conflict { workload: "phone", detail });
        }
        Ok(())
    }

    pub(crate) fn files(&self, seed: u64, free_bytes: u64) -> Result<TransactionFiles<Handset>> {
        self.check()?;
        let needed = 3 * self.call_records * self.call_size
            + 2 * self.message_records * self.message_size
            + self.addresses * self.address_size
            + self.appointments * (self.appointment_max + MARK);
        fits("phone", needed, free_bytes, "use fewer or smaller records")?;
        let calls = |slot| CyclicFile::new(FileSlot(slot), self.call_size, self.call_records);
        let messages = |slot| CyclicFile::new(FileSlot(slot), self.message_size, self.message_records);
        let handset = Handset {
            spec: self.clone(),
            random: Random::new(seed, "phone"),
            logs: [calls(1), calls(2), calls(3), messages(4), messages(5)],
            taken: vec![false; self.appointments as usize],
        };
        Ok(TransactionFiles::new(handset, self.days))
    }
}

const LOG_NAMES: [&str; 5] = ["received", "dialled", "missed", "inbox", "outbox"];
const ADDRESSES: FileSlot = FileSlot(6);
const APPOINTMENTS: FileSlot = FileSlot(7);
/// Bytes before each appointment that say whether it is there, and how long it is.
const MARK: u64 = 4;

#[derive(Clone, Copy, Debug)]
enum Event {
    Log(usize),
    EditAddress,
    NewAppointment,
    DeleteAppointment,
}

/// The phone's state.
#[derive(Debug)]
pub(crate) struct Handset {
    spec: Phone,
    random: Random,
    logs: [CyclicFile; 5],
    taken: Vec<bool>,
}

impl Handset {
    fn day(&mut self) -> Vec<Event> {
        let spec = &self.spec;
        let counts = [
            (Event::Log(0), spec.calls_in),
            (Event::Log(1), spec.calls_out),
            (Event::Log(2), spec.calls_missed),
            (Event::Log(3), spec.messages_in),
            (Event::Log(4), spec.messages_out),
            (Event::EditAddress, spec.address_edits),
            (Event::NewAppointment, spec.appointments_new),
            (Event::DeleteAppointment, spec.appointments_new),
        ];
        let mut events: Vec<Event> =
            counts.into_iter().flat_map(|(event, count)| (0..count).map(move |_| event)).collect();
        self.random.shuffle(&mut events);
        events
    }

    fn place(&self, appointment: usize) -> u64 {
        appointment as u64 * (self.spec.appointment_max + MARK)
    }

    /// A random appointment among those that are (not) taken.
    fn pick(&mut self, taken: bool) -> Option<usize> {
        let count = self.taken.iter().filter(|place| **place == taken).count() as u64;
        let nth = self.random.below(count) as usize;
        let mut places = self.taken.iter().enumerate().filter(|(_, place)| **place == taken);
        places.nth(nth).map(|(number, _)| number)
    }

    /// Writes what the event changes, and returns the file that was changed, if any.
    fn happen(&mut self, event: Event, script: &mut Script) -> Option<FileSlot> {
        match event {
            Event::Log(number) => {
                let log = self.logs.get_mut(number)?;
                script.open(log.slot);
                log.append(script);
                Some(log.slot)
            }
            Event::EditAddress => {
                let place = self.random.below(self.spec.addresses) * self.spec.address_size;
                script.open(ADDRESSES);
                script.write(ADDRESSES, place, self.spec.address_size);
                Some(ADDRESSES)
            }
            Event::NewAppointment => {
                // The first free place; a full calendar takes no more.
                let number = self.taken.iter().position(|taken| !taken)?;
                *self.taken.get_mut(number)? = true;
                let length = self.random.between(self.spec.appointment_min, self.spec.appointment_max);
                script.open(APPOINTMENTS);
                script.write(APPOINTMENTS, self.place(number), MARK + length);
                Some(APPOINTMENTS)
            }
            Event::DeleteAppointment => {
                let number = self.pick(true)?;
                *self.taken.get_mut(number)? = false;
                script.open(APPOINTMENTS);
                script.write(APPOINTMENTS, self.place(number), MARK);
                Some(APPOINTMENTS)
            }
        }
    }
}

impl Transactions for Handset {
    fn set_up(&mut self, script: &mut Script) {
        for (log, name) in self.logs.iter().zip(LOG_NAMES) {
            script.create(log.slot, FileSlot::ROOT, name);
        }
        script.create(ADDRESSES, FileSlot::ROOT, "phonebk");
        for entry in 0..self.spec.addresses {
            script.write(ADDRESSES, entry * self.spec.address_size, self.spec.address_size);
        }
        script.create(APPOINTMENTS, FileSlot::ROOT, "calendar");
        script.sync(None);
    }

    fn transaction(&mut self, _: u64, script: &mut Script) {
        for event in self.day() {
            if let Some(slot) = self.happen(event, script)
                && self.spec.sync
            {
                script.sync(Some(slot));
            }
        }
    }
}

//! Sockets and time: one epoll thread serves many connections, and a heap of due times delays answers until their work is done.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::packet::{Front, front};
use crate::prepared::Catalogue;
use crate::server::{Server, count_one};
use crate::session::{Delivery, Reply, Session};

const READ_BUFFER_BYTES: usize = 64 << 10;
/// Idle connections keep no larger buffer, because ten thousand must fit.
const KEPT_BUFFER_BYTES: usize = 4 << 10;
/// The end of a wait is spun, for precision.
const SPIN_NS: u64 = 60_000;
const INBOX: EventData = EventData::new_u64(u64::MAX);

pub(crate) fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// New connections for a loop, handed over by the accepting threads.
#[derive(Debug)]
pub(crate) struct Inbox {
    arrived: Mutex<Vec<(OwnedFd, u32)>>,
    wake: OwnedFd,
}

impl Inbox {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { arrived: Mutex::default(), wake: eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)? })
    }

    pub(crate) fn push(&self, socket: OwnedFd, connection_id: u32) -> io::Result<()> {
        self.arrived.lock().unwrap_or_else(PoisonError::into_inner).push((socket, connection_id));
        rustix::io::write(&self.wake, &1u64.to_ne_bytes())?;
        Ok(())
    }

    fn take(&self) -> Vec<(OwnedFd, u32)> {
        // Only clears the counter, which may be clear already.
        let _ = rustix::io::read(&self.wake, &mut [0; 8]);
        std::mem::take(&mut *self.arrived.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Ready for the next payload.
    Open,
    /// An encoded answer waits until its work is done.
    Working(Delivery),
    /// Closes once its output is written.
    Closing,
}

#[derive(Debug)]
struct Connection {
    socket: OwnedFd,
    session: Session,
    input: Vec<u8>,
    output: Vec<u8>,
    sent: usize,
    state: State,
    /// Distinguishes a due time of this connection from one of an earlier connection in the same slot.
    generation: u64,
    waits_to_write: bool,
}

/// One serving thread: its connections, and the answers that wait for their time.
#[derive(Debug)]
pub(crate) struct EventLoop {
    server: Arc<Server>,
    inbox: Arc<Inbox>,
    /// CLOCK_MONOTONIC at the law's time zero.
    origin_ns: u64,
    epoll: OwnedFd,
    connections: Vec<Option<Box<Connection>>>,
    free: Vec<usize>,
    due: BinaryHeap<Reverse<(u64, usize, u64)>>,
    next_generation: u64,
    catalogue: Catalogue,
    buffer: Vec<u8>,
}

impl EventLoop {
    pub(crate) fn new(server: Arc<Server>, inbox: Arc<Inbox>, origin_ns: u64) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &inbox.wake, INBOX, EventFlags::IN)?;
        Ok(Self {
            server,
            inbox,
            origin_ns,
            epoll,
            connections: Vec::new(),
            free: Vec::new(),
            due: BinaryHeap::new(),
            next_generation: 0,
            catalogue: Catalogue::default(),
            buffer: vec![0; READ_BUFFER_BYTES],
        })
    }

    fn now_ns(&self) -> u64 {
        monotonic_ns().saturating_sub(self.origin_ns)
    }

    pub(crate) fn run(mut self) -> io::Error {
        let mut events = Vec::with_capacity(256);
        loop {
            let wait = self.give_due_answers();
            events.clear();
            match self.wait_for_events(&mut events, wait) {
                Ok(()) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return error.into(),
            }
            for event in events.drain(..) {
                let (data, flags) = (event.data, event.flags);
                if data.u64() == INBOX.u64() {
                    self.accept_new();
                } else {
                    self.serve(data.u64() as usize, flags);
                }
            }
        }
    }

    /// Waits for events; None waits forever.
    fn wait_for_events(&self, events: &mut Vec<epoll::Event>, wait: Option<Timespec>) -> rustix::io::Result<()> {
        const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
        if let Some(wait) = wait.filter(|wait| *wait != AT_ONCE) {
            // epoll_wait rounds up to whole milliseconds, ppoll does not.
            poll(&mut [PollFd::new(&self.epoll, PollFlags::IN)], Some(&wait))?;
        }
        epoll::wait(&self.epoll, rustix::buffer::spare_capacity(events), wait.map(|_| AT_ONCE).as_ref())?;
        Ok(())
    }

    /// Sends the answers that are due; returns how long to wait for events, None for forever.
    fn give_due_answers(&mut self) -> Option<Timespec> {
        loop {
            let &Reverse((due_ns, slot, generation)) = self.due.peek()?;
            let left_ns = due_ns.saturating_sub(self.now_ns());
            if left_ns > 0 {
                let sleep_ns = left_ns.saturating_sub(SPIN_NS);
                return Some(Timespec {
                    tv_sec: (sleep_ns / 1_000_000_000) as i64,
                    tv_nsec: (sleep_ns % 1_000_000_000) as i64,
                });
            }
            self.due.pop();
            if let Some(connection) = self.connections[slot].as_mut().filter(|c| c.generation == generation)
                && let State::Working(delivery) = connection.state
            {
                connection.state = State::Open;
                self.deliver(slot, delivery);
                self.advance(slot);
            }
        }
    }

    fn accept_new(&mut self) {
        for (socket, connection_id) in self.inbox.take() {
            count_one(&self.server.counters.open_connections);
            let slot = self.free.pop().unwrap_or_else(|| {
                self.connections.push(None);
                self.connections.len() - 1
            });
            if epoll::add(&self.epoll, &socket, EventData::new_u64(slot as u64), EventFlags::IN).is_err() {
                self.count_closed();
                self.free.push(slot);
                continue;
            }
            let session = Session::new(&self.server, connection_id);
            let mut output = Vec::new();
            session.greet(&mut output);
            self.next_generation += 1;
            self.connections[slot] = Some(Box::new(Connection {
                socket,
                session,
                input: Vec::new(),
                output,
                sent: 0,
                state: State::Open,
                generation: self.next_generation,
                waits_to_write: false,
            }));
            self.flush(slot);
        }
    }

    fn serve(&mut self, slot: usize, flags: EventFlags) {
        if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) && !self.read(slot) {
            return self.drop_connection(slot);
        }
        if flags.contains(EventFlags::OUT) {
            self.flush(slot);
        }
        self.advance(slot);
    }

    /// Reads what has arrived; false if the client is gone.
    fn read(&mut self, slot: usize) -> bool {
        let Some(connection) = self.connections[slot].as_mut() else { return true };
        loop {
            match rustix::io::read(&connection.socket, &mut self.buffer[..]) {
                Ok(0) => return false,
                Ok(count) => {
                    if matches!(connection.state, State::Open | State::Working(_)) {
                        connection.input.extend_from_slice(&self.buffer[..count]);
                    }
                    if count < self.buffer.len() {
                        return true;
                    }
                }
                Err(rustix::io::Errno::AGAIN) => return true,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return false,
            }
        }
    }

    /// Answers the payloads that have arrived, one after another, until one has to wait.
    fn advance(&mut self, slot: usize) {
        loop {
            let Some(connection) = self.connections[slot].as_mut() else { return };
            if connection.state != State::Open || !connection.output.is_empty() {
                return;
            }
            let Connection { session, input, output, .. } = &mut **connection;
            let (reply, taken) = match front(input) {
                Front::Incomplete => {
                    if input.is_empty() && input.capacity() > KEPT_BUFFER_BYTES {
                        *input = Vec::new();
                    }
                    return;
                }
                Front::TooLarge => return self.drop_connection(slot),
                Front::Whole { sequence, payload, taken } => {
                    (session.handle(&mut self.catalogue, sequence, &payload, output), taken)
                }
            };
            input.drain(..taken);
            self.answer(slot, &reply);
        }
    }

    /// Sends an encoded answer now, or once its work is done.
    fn answer(&mut self, slot: usize, reply: &Reply) {
        let now_ns = self.now_ns();
        let Some(connection) = self.connections[slot].as_mut() else { return };
        let law = &self.server.config.law;
        let finish_ns = if reply.timed {
            law.finish_ns(now_ns, law.work_ns(now_ns, &mut connection.session.random))
        } else {
            now_ns
        };
        if finish_ns > now_ns {
            connection.state = State::Working(reply.delivery);
            self.due.push(Reverse((finish_ns, slot, connection.generation)));
            return;
        }
        self.deliver(slot, reply.delivery);
    }

    fn deliver(&mut self, slot: usize, delivery: Delivery) {
        let Some(connection) = self.connections[slot].as_mut() else { return };
        match delivery {
            Delivery::Whole => {}
            Delivery::WholeThenClose => connection.state = State::Closing,
            Delivery::ExitNow => std::process::exit(70),
        }
        self.flush(slot);
    }

    /// Writes as much as the socket takes, and waits to write the rest.
    fn flush(&mut self, slot: usize) {
        let Some(connection) = self.connections[slot].as_mut() else { return };
        while connection.sent < connection.output.len() {
            match rustix::io::write(&connection.socket, &connection.output[connection.sent..]) {
                Ok(count) => connection.sent += count,
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => {
                    if !connection.waits_to_write {
                        connection.waits_to_write = true;
                        self.watch(slot, EventFlags::IN | EventFlags::OUT);
                    }
                    return;
                }
                Err(_) => return self.drop_connection(slot),
            }
        }
        connection.sent = 0;
        connection.output.clear();
        if connection.output.capacity() > KEPT_BUFFER_BYTES {
            connection.output.shrink_to(KEPT_BUFFER_BYTES);
        }
        if connection.state == State::Closing {
            return self.drop_connection(slot);
        }
        if std::mem::take(&mut connection.waits_to_write) {
            self.watch(slot, EventFlags::IN);
        }
    }

    fn watch(&mut self, slot: usize, flags: EventFlags) {
        let Some(connection) = self.connections[slot].as_ref() else { return };
        if epoll::modify(&self.epoll, &connection.socket, EventData::new_u64(slot as u64), flags).is_err() {
            self.drop_connection(slot);
        }
    }

    fn count_closed(&self) {
        let counters = &self.server.counters;
        counters.open_connections.fetch_sub(1, Ordering::Relaxed);
    }

    fn drop_connection(&mut self, slot: usize) {
        // Closing the socket takes it out of epoll; its due time is ignored, because its generation has passed.
        if self.connections[slot].take().is_some() {
            self.free.push(slot);
            self.count_closed();
        }
    }
}

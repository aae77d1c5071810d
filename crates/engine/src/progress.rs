//! How far a command is: the threads' shares added up, told about ten times a second.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::contract::Answer;
use crate::message_writer::MessageWriter;

/// Shortest time between two messages of one label.
const INTERVAL: Duration = Duration::from_millis(100);

/// The progress of one command, shared by its threads.
#[derive(Debug)]
pub struct Progress {
    id: u64,
    arm: String,
    writer: MessageWriter,
    labels: Mutex<BTreeMap<String, Label>>,
}

#[derive(Debug, Default)]
struct Label {
    done: u64,
    total: u64,
    told: Option<(Instant, u64)>,
}

impl Progress {
    /// Progress of request `id` on `arm`.
    pub fn new(id: u64, arm: &str, writer: MessageWriter) -> Self {
        Self {
            id,
            arm: arm.to_owned(),
            writer,
            labels: Mutex::default(),
        }
    }

    /// One thread has done so much more of the whole command's `total`.
    pub fn add(&self, label: &str, done: u64, total: u64) {
        let mut labels = self.labels.lock().unwrap_or_else(PoisonError::into_inner);
        if !labels.contains_key(label) {
            labels.insert(label.to_owned(), Label::default());
        }
        let Some(entry) = labels.get_mut(label) else {
            return;
        };
        entry.done += done;
        entry.total = entry.total.max(total);
        let due = entry
            .told
            .is_none_or(|(when, _)| when.elapsed() >= INTERVAL);
        if due || entry.done >= entry.total {
            self.tell(label, entry);
        }
    }

    /// Tells what the interval has held back.
    pub fn finish(&self) {
        let mut labels = self.labels.lock().unwrap_or_else(PoisonError::into_inner);
        for (label, entry) in labels.iter_mut() {
            self.tell(label, entry);
        }
    }

    /// Under the lock, so that messages come in order.
    fn tell(&self, label: &str, entry: &mut Label) {
        if entry.told.is_some_and(|(_, told)| told == entry.done) {
            return;
        }
        entry.told = Some((Instant::now(), entry.done));
        self.writer.send(&Answer::Progress {
            id: self.id,
            arm: self.arm.clone(),
            label: label.to_owned(),
            done: entry.done,
            total: entry.total,
        });
    }
}

//! Lets only so many threads through at a time.

use std::sync::{Condvar, Mutex, PoisonError};

/// Loading a script is work for the CPU and leaves garbage behind: thousands of threads that did it at once would only wait for
/// each other and hold all that garbage together. For loading alone: a script's own `thread_init()` may wait for other threads.
#[derive(Debug)]
pub(super) struct Semaphore {
    places: Mutex<usize>,
    freed: Condvar,
}

impl Semaphore {
    /// As many places as there are CPUs, twice.
    pub(super) fn for_cpus() -> Self {
        let cpus = std::thread::available_parallelism().map_or(4, usize::from);
        Self {
            places: Mutex::new(2 * cpus),
            freed: Condvar::new(),
        }
    }

    /// Waits for a place, and keeps it while `work` runs.
    pub(super) fn pass<T>(&self, work: impl FnOnce() -> T) -> T {
        /// Gives the place back, also when `work` panics.
        struct Place<'a>(&'a Semaphore);
        impl Drop for Place<'_> {
            fn drop(&mut self) {
                let places = self.0.places.lock();
                *places.unwrap_or_else(PoisonError::into_inner) += 1;
                self.0.freed.notify_one();
            }
        }
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        while *places == 0 {
            places = self
                .freed
                .wait(places)
                .unwrap_or_else(PoisonError::into_inner);
        }
        *places -= 1;
        drop(places);
        let _place = Place(self);
        work()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    #[test]
    fn no_more_than_its_places_are_inside() {
        let semaphore = Semaphore {
            places: Mutex::new(2),
            freed: Condvar::new(),
        };
        let (inside, most, passed) = (
            AtomicUsize::new(0),
            AtomicUsize::new(0),
            AtomicUsize::new(0),
        );
        std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    semaphore.pass(|| {
                        most.fetch_max(inside.fetch_add(1, SeqCst) + 1, SeqCst);
                        std::thread::sleep(std::time::Duration::from_millis(2));
                        inside.fetch_sub(1, SeqCst);
                        passed.fetch_add(1, SeqCst);
                    });
                });
            }
        });
        assert_eq!((passed.into_inner(), inside.into_inner()), (16, 0));
        assert!(most.into_inner() <= 2);
    }
}

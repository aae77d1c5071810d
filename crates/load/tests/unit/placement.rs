//! Tests of `src/placement.rs`.

use super::*;

#[test]
fn lists_of_cpus_are_read_as_the_kernel_writes_them() {
    assert_eq!(cpus_of_list("0-2,8\n").collect::<Vec<_>>(), [0, 1, 2, 8]);
    assert_eq!(cpus_of_list("5\n").collect::<Vec<_>>(), [5]);
    assert_eq!(cpus_of_list("").count(), 0);
}

#[test]
fn a_thread_that_runs_is_counted() {
    let pid = i32::try_from(std::process::id()).unwrap();
    let thread = rustix::thread::gettid().as_raw_nonzero().get();
    let mut times_run = TimesRun::open(pid, thread).unwrap();
    std::thread::sleep(Duration::from_millis(2));
    assert!(times_run.ran());
    assert!(threads_of(pid).any(|each| each == thread));
}

//! Tests of `src/placement.rs`.

use super::*;

#[test]
fn kernel_cpu_lists_are_parsed() {
    assert_eq!(parse_list("0-2,8\n").collect::<Vec<_>>(), [0, 1, 2, 8]);
    assert_eq!(parse_list("5\n").collect::<Vec<_>>(), [5]);
    assert_eq!(parse_list("").count(), 0);
}

#[test]
fn a_thread_that_ran_is_detected() {
    let pid = i32::try_from(std::process::id()).unwrap();
    let thread = rustix::thread::gettid().as_raw_nonzero().get();
    let mut times_run = TimesRun::open(pid, thread).unwrap();
    std::thread::sleep(Duration::from_millis(2));
    assert!(times_run.ran());
    assert!(threads_of(pid).any(|each| each == thread));
}

/// A machine's CPUs as /sys describes them.
struct Machine {
    sockets: usize,
    cores_a_socket: usize,
    threads_a_core: usize,
    /// Whether the kernel numbers neighbours in turn (0 and 1 are on different sockets) and not socket by socket.
    alternating: bool,
    offline: &'static [usize],
}

impl Machine {
    fn cpus(&self) -> usize {
        self.sockets * self.cores_a_socket * self.threads_a_core
    }

    /// Siblings of core c are c, c + cores and so on, as the kernel numbers them on most machines.
    fn core(&self, cpu: usize) -> usize {
        cpu % (self.sockets * self.cores_a_socket)
    }

    fn socket(&self, cpu: usize) -> usize {
        if self.alternating { self.core(cpu) % self.sockets } else { self.core(cpu) / self.cores_a_socket }
    }

    fn online(&self) -> Vec<usize> {
        (0..self.cpus()).filter(|cpu| !self.offline.contains(cpu)).collect()
    }

    fn list(&self, wanted: impl Fn(usize) -> bool) -> String {
        let cpus: Vec<String> =
            self.online().into_iter().filter(|&cpu| wanted(cpu)).map(|cpu| cpu.to_string()).collect();
        cpus.join(",") + "\n"
    }

    /// Writes the files of /sys that are read, calls `body` with their root and the usable CPUs, and removes them.
    fn with(&self, body: impl FnOnce(&Path, &CpuSet)) {
        let sys =
            std::env::temp_dir().join(format!("bakeoff-sys-{}-{:?}", std::process::id(), std::thread::current().id()));
        let write = |file: String, text: String| {
            let path = sys.join("devices/system").join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("node/online".into(), format!("0-{}\n", self.sockets)); // the last one is memory without CPUs
        for socket in 0..=self.sockets {
            write(format!("node/node{socket}/cpulist"), self.list(|cpu| self.socket(cpu) == socket));
        }
        let mut usable = CpuSet::new();
        for cpu in self.online() {
            usable.set(cpu);
            let siblings = self.list(|other| self.core(other) == self.core(cpu));
            write(format!("cpu/cpu{cpu}/topology/thread_siblings_list"), siblings);
        }
        body(&sys, &usable);
        std::fs::remove_dir_all(sys).unwrap();
    }
}

const MACHINES: [Machine; 6] = [
    Machine { sockets: 1, cores_a_socket: 8, threads_a_core: 2, alternating: false, offline: &[] },
    Machine { sockets: 2, cores_a_socket: 16, threads_a_core: 2, alternating: false, offline: &[1, 17, 40] },
    Machine { sockets: 2, cores_a_socket: 32, threads_a_core: 2, alternating: true, offline: &[] },
    Machine { sockets: 2, cores_a_socket: 64, threads_a_core: 1, alternating: false, offline: &[0] },
    Machine { sockets: 2, cores_a_socket: 64, threads_a_core: 2, alternating: false, offline: &[] },
    Machine { sockets: 4, cores_a_socket: 32, threads_a_core: 2, alternating: true, offline: &[3, 7, 131] },
];

#[test]
fn connections_fill_every_core_before_any_sibling() {
    for machine in &MACHINES {
        machine.with(|sys, usable| {
            let cpus = cores_first(usable, sys);
            let cores: HashSet<usize> = cpus.iter().map(|&cpu| machine.core(cpu)).collect();
            let first: HashSet<usize> = cpus[..cores.len()].iter().map(|&cpu| machine.core(cpu)).collect();
            assert_eq!(first, cores);
            let mut all = cpus.clone();
            all.sort_unstable();
            assert_eq!(all, machine.online());
        });
    }
}

#[test]
fn connections_are_shuffled_only_within_numa_nodes() {
    for (machine, workers) in MACHINES.iter().flat_map(|machine| [4, 64, 1_024].map(|workers| (machine, workers))) {
        machine.with(|sys, usable| {
            let cpus = cores_first(usable, sys);
            let nodes = nodes_of(&cpus, sys);
            assert_eq!(nodes, cpus.iter().map(|&cpu| machine.socket(cpu)).collect::<Vec<_>>());
            let mut order: Vec<usize> = (0..workers).collect();
            order.shuffle(&mut generator([1, 2, 0, 3]));
            let places = places_within_nodes(&order, &nodes);
            assert!((0..workers).all(|worker| nodes[places[worker] % nodes.len()] == nodes[worker % nodes.len()]));
            // Every place has one worker, so a CPU keeps as many connections as it had.
            assert_eq!(places.iter().collect::<HashSet<_>>().len(), workers);
            assert!(
                workers < 64
                    || places.iter().enumerate().filter(|(worker, place)| worker != *place).count() > workers / 2
            );
        });
    }
}

#[test]
fn without_nodes_connections_may_take_any_place() {
    let nodes = nodes_of(&[0, 1, 2], Path::new("/nonexistent"));
    assert_eq!(nodes, [0, 0, 0]);
    assert_eq!(places_within_nodes(&[2, 0, 1, 3], &nodes), [1, 2, 0, 3]);
}

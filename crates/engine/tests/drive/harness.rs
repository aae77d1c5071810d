//! The built engine and fake servers as child processes, and the requests that the tests send.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::Once;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// No answer of a test takes longer; the machine may be busy.
const ANSWER_LIMIT: Duration = Duration::from_secs(40);

/// `bakeoff-engine drive`, killed when dropped.
pub(crate) struct Engine {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<Value>,
    next_id: u64,
    pub(crate) logs: Vec<Value>,
}

impl Engine {
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    pub(crate) fn start_with(options: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_bakeoff-engine"))
            .arg("drive")
            .args(options)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
                if sender.send(value).is_err() {
                    break;
                }
            }
        });
        let input = child.stdin.take();
        Self { child, input, lines, next_id: 1, logs: Vec::new() }
    }

    /// The next line, logs included.
    pub(crate) fn line(&self) -> Value {
        self.lines.recv_timeout(ANSWER_LIMIT).expect("the engine answers")
    }

    pub(crate) fn write(&mut self, line: &str) {
        let input = self.input.as_mut().unwrap();
        writeln!(input, "{line}").unwrap();
        input.flush().unwrap();
    }

    /// Sends a request and returns its id.
    pub(crate) fn send(&mut self, mut request: Value) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        request["id"] = json!(id);
        self.write(&request.to_string());
        id
    }

    /// All answers to request `id`, the last one last.
    pub(crate) fn answers(&mut self, id: u64) -> Vec<Value> {
        let mut answers = Vec::new();
        let begun = Instant::now();
        loop {
            let line = self.line();
            assert!(begun.elapsed() < ANSWER_LIMIT, "request {id} does not end");
            if line["type"] == "log" {
                self.logs.push(line);
                continue;
            }
            assert_eq!(line["id"], id, "{line}");
            let last = ["done", "opened", "probed", "pong", "error"].contains(&line["type"].as_str().unwrap());
            answers.push(line);
            if last {
                return answers;
            }
        }
    }

    pub(crate) fn ask(&mut self, request: Value) -> Vec<Value> {
        let id = self.send(request);
        self.answers(id)
    }

    /// The last answer alone.
    pub(crate) fn outcome(&mut self, request: Value) -> Value {
        self.ask(request).pop().unwrap()
    }

    pub(crate) fn open(&mut self, arms: &[Value]) -> Value {
        self.outcome(json!({"type": "open", "arms": arms}))
    }

    /// Closes standard input and waits for the end.
    pub(crate) fn end(mut self) -> ExitStatus {
        self.input = None;
        self.wait()
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        kill(self.child.id(), signal);
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        wait(&mut self.child)
    }

    /// The most memory that the engine has had so far [KiB].
    pub(crate) fn peak_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        peak.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// Skips answers until one of this type has come.
    pub(crate) fn skip_to(&self, kind: &str) -> Value {
        let until = Instant::now() + ANSWER_LIMIT;
        loop {
            match self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) if line["type"] == kind => return line,
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    panic!("no {kind} came")
                }
            }
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `bakeoff-fakeserver` on a new unix socket, killed when dropped.
pub(crate) struct FakeServer {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
    socket: PathBuf,
    _folder: Folder,
}

impl FakeServer {
    pub(crate) fn start(options: &[&str]) -> Self {
        let folder = Folder::new();
        let socket = folder.0.join("s.sock");
        let mut child = Command::new(fake_server_path())
            .arg("--socket")
            .arg(&socket)
            .args(["--seed", "1"])
            .args(options)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut ready = String::new();
        output.read_line(&mut ready).unwrap();
        assert!(ready.contains("ready"), "{ready}");
        Self { child, output, socket, _folder: folder }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The server as an arm of `open`.
    pub(crate) fn arm(&self, name: &str) -> Value {
        json!({
            "name": name, "address": {"socket": self.socket}, "user": "root", "password": "", "database": "sbtest",
            "charset": "utf8mb4", "collation": null, "tls": {"mode": "disabled"}, "prepare_mode": "server",
            "server_pid": self.pid(), "slowdown_percent": 0, "ignore_errors": [1213, 1020, 1205],
        })
    }

    pub(crate) fn kill(&self) {
        kill(self.pid(), rustix::process::Signal::KILL);
    }

    pub(crate) fn is_stopped(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap();
        stat.rsplit(')').next().unwrap().trim_start().starts_with('T')
    }

    /// Ends the server; how many statements it was asked in all, those of logging in included.
    pub(crate) fn questions(mut self) -> u64 {
        kill(self.pid(), rustix::process::Signal::TERM);
        let mut last = String::new();
        self.output.read_line(&mut last).unwrap();
        let ended: Value = serde_json::from_str(&last).unwrap();
        ended["counters"]["questions"].as_u64().unwrap()
    }
}

impl Drop for FakeServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A folder of this test's own, removed when dropped.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        use std::sync::atomic::{AtomicU32, Ordering};
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("bakeoff-drive-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// A script in this folder; its path.
    pub(crate) fn script(&self, text: &str) -> String {
        let path = self.0.join("script.lua");
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn kill(pid: u32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(pid.try_into().unwrap()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

fn wait(child: &mut Child) -> ExitStatus {
    let until = Instant::now() + ANSWER_LIMIT;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        assert!(Instant::now() < until, "the engine does not end");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The fake server is another package's program: beside ours when the workspace was built, else built now.
fn fake_server_path() -> PathBuf {
    static BUILD: Once = Once::new();
    let folder = Path::new(env!("CARGO_BIN_EXE_bakeoff-engine")).parent().unwrap();
    BUILD.call_once(|| {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "-p", "bakeoff-fakeserver", "--manifest-path"]);
        cargo.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
        cargo.arg("--target-dir").arg(folder.parent().unwrap());
        if folder.ends_with("release") {
            cargo.arg("--release");
        }
        assert!(cargo.status().unwrap().success(), "the fake server does not build");
    });
    folder.join("bakeoff-fakeserver")
}

/// A `measure` of point selects by two workers an arm, with `changes` to its fields.
pub(crate) fn measure(arms: &[&str], changes: Value) -> Value {
    let mut request = json!({
        "type": "measure", "cell": "oltp_point_select/2", "script": "oltp_point_select",
        "options": {"tables": 1, "table_size": 1000}, "arm_options": {}, "threads": 2, "arms": arms,
        "seconds": null, "blocks": 2, "slice_ns": 50_000_000, "guard_ns": 5_000_000, "order_seed": 1, "key_seed": 2,
        "load": {"model": "closed"}, "freeze": false,
    });
    for (field, value) in changes.as_object().unwrap() {
        request[field] = value.clone();
    }
    request
}

/// Sum of a field over an arm's slices.
pub(crate) fn sum(answers: &[Value], arm: &str, field: &str) -> u64 {
    let slices = answers.iter().filter(|answer| answer["type"] == "slice" && answer["arm"] == arm);
    slices.map(|slice| slice[field].as_u64().unwrap_or_else(|| panic!("{field} of {slice}"))).sum()
}

/// Events a second: the contract's ratio of sums.
pub(crate) fn throughput(answers: &[Value], arm: &str) -> f64 {
    let connections = answers.iter().find(|answer| answer["type"] == "slice").unwrap()["connections"].as_f64().unwrap();
    sum(answers, arm, "events") as f64 * connections / sum(answers, arm, "busy_ns") as f64 * 1e9
}

#![no_main]

use std::io::Cursor;

use bakeoff_capture::capture_file::Header;
use bakeoff_capture::event::{Event, Sink};
use bakeoff_capture::logs::{Format, detect};
use bakeoff_capture::recorder::Recorder;
use bakeoff_capture::redact::Redactor;
use libfuzzer_sys::fuzz_target;

/// Each format with an event that must be found behind anything; what opens a quote in a file of SQL swallows the rest.
const FORMATS: [(Format, Option<&[u8]>); 3] = [
    (
        Format::Slow,
        Some(b"\n# User@Host: a[a] @ h []  Id: 5\n# Query_time: 0.1  Lock_time: 0.0\nSET timestamp=1690891200;\nSELECT 'later';\n"),
    ),
    (Format::General, Some(b"\n2024-11-06T09:57:35.187996Z\t    7 Query\tSELECT 'later'\n")),
    (Format::Sql, None),
];

#[derive(Default)]
struct Kept(Vec<Vec<u8>>);

impl Sink for Kept {
    fn event(&mut self, event: &mut Event) {
        self.0.push(event.sql.clone());
    }

    fn skipped(&mut self, _: u64) {}
}

fn read(format: Format, log: &[u8], sink: &mut dyn Sink) {
    let mut reader = format.reader();
    for line in log.split_inclusive(|byte| *byte == b'\n') {
        reader.line(line, sink);
    }
    reader.finish(sink);
}

// The first byte chooses the format, and whether literals are replaced.
fuzz_target!(|input: &[u8]| {
    let Some((choice, log)) = input.split_first() else {
        return;
    };
    let (format, later) = FORMATS[usize::from(choice % 3)];
    detect(log);
    if let Some(later) = later {
        let mut kept = Kept::default();
        read(format, &[log, later].concat(), &mut kept);
        assert_eq!(
            kept.0.last().map(Vec::as_slice),
            Some(&b"SELECT 'later'"[..]),
            "no later event is lost"
        );
    }
    let redactor = (*choice >= 128).then(|| Redactor::new().expect("random numbers"));
    let header = Header {
        r#type: "bakeoff-capture".into(),
        version: 1,
        redacted: redactor.is_some(),
    };
    let mut recorder = Recorder::new(Cursor::new(Vec::new()), &header, redactor).expect("memory");
    read(format, log, &mut recorder);
    recorder.finish(&[format]).expect("memory");
});

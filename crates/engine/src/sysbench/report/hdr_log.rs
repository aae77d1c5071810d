//! `--hdr-log`: latencies interval by interval, in `HdrHistogram`'s log format 1.3, which its tools in many languages read.
//!
//! Format: the header of `HistogramLogWriter` (HdrHistogram, Java). Values are nanoseconds; `Interval_Max` is in milliseconds, as there.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use super::ms;
use crate::sysbench::tally::Stretch;

/// An open log.
#[derive(Debug)]
pub(in crate::sysbench) struct HdrLog {
    out: BufWriter<File>,
    path: String,
}

impl HdrLog {
    /// Creates the file and writes its heading.
    ///
    /// # Errors
    /// One line.
    pub(in crate::sysbench) fn create(path: &Path) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("--hdr-log {}: {error}", path.display());
        let mut log = Self {
            out: BufWriter::new(File::create(path).map_err(failed)?),
            path: path.display().to_string(),
        };
        let start = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        writeln!(
            log.out,
            "#[Histogram log format version 1.3]\n#[StartTime: {:.3} (seconds since epoch), nanoseconds of whole events]\n\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"",
            start.as_secs_f64()
        )
        .and_then(|()| log.out.flush())
        .map_err(failed)?;
        Ok(log)
    }

    /// Writes one interval that ended `at_s` seconds after counting began.
    ///
    /// # Errors
    /// One line.
    pub(in crate::sysbench) fn write(
        &mut self,
        at_s: f64,
        stretch: &Stretch,
    ) -> Result<(), String> {
        let events = stretch.events();
        let failed = |words: String| format!("--hdr-log {}: {words}", self.path);
        let encoded = events
            .to_base64()
            .map_err(|error| failed(error.to_string()))?;
        writeln!(
            self.out,
            "{:.3},{:.3},{:.3},{encoded}",
            at_s - stretch.seconds,
            stretch.seconds,
            ms(events.max_ns())
        )
        .and_then(|()| self.out.flush())
        .map_err(|error| failed(error.to_string()))
    }
}

//! How this binary was built, for `hello` and `--version`: a report must be able to say what measured.

use crate::contract::Build;

/// What `build.rs` found out; `unknown` where it could not.
pub fn build() -> Build {
    Build {
        profile: env!("BAKEOFF_PROFILE"),
        commit: env!("BAKEOFF_COMMIT"),
        rustc: env!("BAKEOFF_RUSTC"),
        target: env!("BAKEOFF_TARGET"),
    }
}

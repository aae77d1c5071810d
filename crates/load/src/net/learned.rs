//! What connections find out about a server, so that a reconnect need not ask again.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock};

use bakeoff_script::host::SqlError;
use rustls::ClientConfig;

use super::{TlsOptions, tls};

/// `character_set_connection`, `collation_connection`, `character_set_client` and `character_set_results` of a session.
pub(super) type Names = [String; 4];

/// Shared by all connections to one [`super::ServerAddress`]. Cloning starts empty, because the copy may be changed.
#[derive(Debug, Default)]
pub struct Learned {
    pub(super) names: OnceLock<Names>,
    /// Whether a login that announces the collation has the same effect.
    pub(super) login_sets_names: OnceLock<bool>,
    pub(super) without_tls: OnceLock<()>,
    tls: OnceLock<Arc<ClientConfig>>,
    pub(super) resolved: Mutex<Option<Arc<[SocketAddr]>>>,
}

impl Clone for Learned {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Learned {
    pub(super) fn tls(&self, options: &TlsOptions) -> Result<Arc<ClientConfig>, SqlError> {
        if let Some(config) = self.tls.get() {
            return Ok(Arc::clone(config));
        }
        let config = tls::configuration(options)?;
        Ok(Arc::clone(self.tls.get_or_init(|| config)))
    }
}

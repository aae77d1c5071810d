//! TLS 1.2 and 1.3 by rustls: what is verified in which mode, and errors that say what to do.

use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use bakeoff_script::host::SqlError;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{self, CryptoProvider};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    AlertDescription, ClientConfig, ClientConnection, DigitallySignedStruct, InvalidMessage, RootCertStore,
    SignatureScheme,
};

use super::address::{Endpoint, TlsMode, TlsOptions};
use super::errors::tls;
use super::socket::Socket;
use super::tls_dhe;

/// A TLS session over a socket.
pub(super) struct TlsStream {
    session: ClientConnection,
    socket: Socket,
}

impl TlsStream {
    /// Does the handshake.
    pub(super) fn start(socket: Socket, endpoint: &Endpoint, options: &TlsOptions) -> Result<Self, SqlError> {
        let config = configuration(options)?;
        let name = match endpoint {
            Endpoint::Tcp { host, .. } => host.clone(),
            // A unix socket has no host name; MySQL's own client checks "localhost" there.
            Endpoint::Unix(_) => "localhost".to_owned(),
        };
        let name = ServerName::try_from(name.clone()).map_err(|_| tls(format!("'{name}' is no host name")))?;
        let mut session = ClientConnection::new(config, name).map_err(tls)?;
        while session.is_handshaking() {
            if let Err(error) = session.complete_io(&mut &socket) {
                return Err(tls(explained(&error)));
            }
        }
        Ok(Self { session, socket })
    }

    /// E.g. `TLSv1.3 TLS13_AES_256_GCM_SHA384`.
    pub(super) fn cipher(&self) -> String {
        let version = match self.session.protocol_version() {
            Some(rustls::ProtocolVersion::TLSv1_2) => "TLSv1.2",
            Some(rustls::ProtocolVersion::TLSv1_3) => "TLSv1.3",
            _ => "TLS",
        };
        let suite = self
            .session
            .negotiated_cipher_suite()
            .and_then(|suite| suite.suite().as_str());
        format!("{version} {}", suite.unwrap_or("unknown cipher"))
    }

    pub(super) fn socket_mut(&mut self) -> &mut Socket {
        &mut self.socket
    }

    pub(super) fn send(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            // The session takes 64 KiB at a time.
            let taken = self.session.writer().write(bytes)?;
            bytes = &bytes[taken..];
            self.flush()?;
        }
        Ok(())
    }

    pub(super) fn receive(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.session.reader().read(into) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // A server that is killed sends no farewell; the end of the stream is what counts.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                other => return other,
            }
            if self.session.read_tls(&mut &self.socket)? == 0 {
                return Ok(0);
            }
            self.session.process_new_packets().map_err(io::Error::other)?;
            self.flush()?;
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        while self.session.wants_write() {
            self.session.write_tls(&mut &self.socket)?;
        }
        Ok(())
    }
}

/// What a failed handshake means for the person who asked for TLS.
fn explained(error: &io::Error) -> String {
    use rustls::{CertificateError as Certificate, Error};
    let cause = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    match cause {
        Some(
            Error::AlertReceived(AlertDescription::ProtocolVersion)
            | Error::PeerIncompatible(_)
            | Error::InvalidMessage(InvalidMessage::UnknownProtocolVersion),
        ) => format!(
            "the server and bakeoff have no TLS version in common ({error}): bakeoff speaks TLS 1.2 and 1.3, MySQL 5.7 of the \
             community builds only 1.0 and 1.1; set tls mode to disabled"
        ),
        Some(Error::AlertReceived(AlertDescription::HandshakeFailure)) => {
            format!("the server accepts none of bakeoff's TLS versions and ciphers ({error})")
        }
        Some(Error::InvalidCertificate(Certificate::UnknownIssuer)) => {
            "the server's certificate is not signed by the CA file's certificate".to_owned()
        }
        Some(Error::InvalidCertificate(Certificate::NotValidForName | Certificate::NotValidForNameContext { .. })) => {
            format!("the server's certificate does not name this host ({error}); tls mode verify_ca does without the name")
        }
        Some(Error::InvalidCertificate(_)) => format!("the server's certificate is refused ({error})"),
        _ if error.kind() == io::ErrorKind::UnexpectedEof => {
            "the server closed the connection in the TLS handshake; perhaps it has no TLS version in common with bakeoff (1.2 and \
             1.3)"
                .to_owned()
        }
        _ if error.kind() == io::ErrorKind::TimedOut => "no answer in the TLS handshake in time".to_owned(),
        _ => error.to_string(),
    }
}

/// rustls on ring, and behind everything else the key exchange of older MySQL 8.0.
fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    let make = || {
        let mut provider = crypto::ring::default_provider();
        provider.cipher_suites.extend(tls_dhe::cipher_suites());
        provider.kx_groups.push(tls_dhe::GROUP);
        Arc::new(provider)
    };
    Arc::clone(PROVIDER.get_or_init(make))
}

fn configuration(options: &TlsOptions) -> Result<Arc<ClientConfig>, SqlError> {
    let provider = provider();
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(tls)?;
    let builder = match options.mode {
        TlsMode::VerifyIdentity => builder.with_root_certificates(authorities(options)?),
        TlsMode::VerifyCa => builder.dangerous().with_custom_certificate_verifier(Arc::new(Verifier {
            roots: Some(authorities(options)?),
            provider,
        })),
        TlsMode::Disabled | TlsMode::Preferred | TlsMode::Required => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Verifier { roots: None, provider })),
    };
    let config = match (&options.cert, &options.key) {
        (Some(cert), Some(key)) => {
            let private_key = PrivateKeyDer::from_pem_file(key).map_err(|error| unreadable("key", key, &error))?;
            builder
                .with_client_auth_cert(certificates("cert", cert)?, private_key)
                .map_err(|error| {
                    tls(format!(
                        "tls cert {} and key {}: {error}",
                        cert.display(),
                        key.display()
                    ))
                })?
        }
        (None, None) => builder.with_no_client_auth(),
        _ => return Err(tls("tls cert and tls key go together: give both or none")),
    };
    Ok(Arc::new(config))
}

fn authorities(options: &TlsOptions) -> Result<RootCertStore, SqlError> {
    let path = options
        .ca
        .as_ref()
        .ok_or_else(|| tls("tls modes verify_ca and verify_identity need a tls ca file"))?;
    let mut roots = RootCertStore::empty();
    for certificate in certificates("ca", path)? {
        roots
            .add(certificate)
            .map_err(|error| tls(format!("tls ca {}: {error}", path.display())))?;
    }
    Ok(roots)
}

fn certificates(option: &str, path: &Path) -> Result<Vec<CertificateDer<'static>>, SqlError> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    match certificates {
        Ok(certificates) if certificates.is_empty() => Err(tls(format!(
            "tls {option} {}: no certificate in the file",
            path.display()
        ))),
        Ok(certificates) => Ok(certificates),
        Err(error) => Err(unreadable(option, path, &error)),
    }
}

fn unreadable(option: &str, path: &Path, error: &dyn std::fmt::Display) -> SqlError {
    tls(format!("tls {option} {}: {error}", path.display()))
}

/// Verifies that the server owns its certificate; with `roots`, also who signed it; never which host it names.
#[derive(Debug)]
struct Verifier {
    roots: Option<RootCertStore>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if let Some(roots) = &self.roots {
            rustls::client::verify_server_cert_signed_by_trust_anchor(
                &rustls::server::ParsedCertificate::try_from(end_entity)?,
                roots,
                intermediates,
                now,
                self.provider.signature_verification_algorithms.all,
            )?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        crypto::verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        crypto::verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

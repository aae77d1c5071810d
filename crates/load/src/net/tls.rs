//! TLS 1.2 and 1.3 by rustls, plus finite-field DHE, which must stay: MySQL 5.7 servers negotiate DHE-RSA-AES128. The
//! archives' builds of 5.7, 8.0.12 and 8.0.15 offer only plain RSA and DHE, and rustls has neither.

use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use bakeoff_script::host::SqlError;
use num_bigint::BigUint;
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    self, ActiveKeyExchange, CipherSuiteCommon, CryptoProvider, KeyExchangeAlgorithm, SharedSecret, SupportedKxGroup,
    ring,
};
use rustls::ffdhe_groups::FfdheGroup;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    CipherSuite, ClientConfig, ClientConnection, DigitallySignedStruct, Error, InvalidMessage, NamedGroup,
    PeerMisbehaved, ProtocolVersion, RootCertStore, SignatureScheme, SupportedCipherSuite, Tls12CipherSuite,
};

use super::errors::tls;
use super::socket::Socket;
use super::{Endpoint, TlsMode, TlsOptions};

pub(super) struct TlsStream {
    session: ClientConnection,
    socket: Socket,
}

impl TlsStream {
    pub(super) fn start(socket: Socket, endpoint: &Endpoint, config: Arc<ClientConfig>) -> Result<Self, SqlError> {
        let name = match endpoint {
            Endpoint::Tcp { host, .. } => host.clone(),
            // A unix socket has no host name. MySQL's own client checks "localhost".
            Endpoint::Unix(_) => "localhost".to_owned(),
        };
        let name = ServerName::try_from(name.clone()).map_err(|_| tls(format!("'{name}' is not a host name")))?;
        let mut session = ClientConnection::new(config, name).map_err(tls)?;
        while session.is_handshaking() {
            if let Err(error) = session.complete_io(&mut &socket) {
                return Err(tls(explained(&error)));
            }
        }
        Ok(Self { session, socket })
    }

    pub(super) fn cipher(&self) -> String {
        let version = match self.session.protocol_version() {
            Some(ProtocolVersion::TLSv1_2) => "TLSv1.2",
            Some(ProtocolVersion::TLSv1_3) => "TLSv1.3",
            _ => "TLS",
        };
        let suite = self.session.negotiated_cipher_suite().and_then(|suite| suite.suite().as_str());
        format!("{version} {}", suite.unwrap_or("unknown cipher"))
    }

    pub(super) fn socket_mut(&mut self) -> &mut Socket {
        &mut self.socket
    }

    pub(super) fn send(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
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
                // A killed server sends no close_notify.
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

pub(super) fn explained(error: &io::Error) -> String {
    use rustls::{AlertDescription, CertificateError as Certificate, PeerIncompatible};
    let cause = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    let reason = match cause {
        Some(
            Error::AlertReceived(AlertDescription::ProtocolVersion | AlertDescription::HandshakeFailure)
            | Error::PeerIncompatible(PeerIncompatible::ServerDoesNotSupportTls12Or13)
            | Error::InvalidMessage(InvalidMessage::UnknownProtocolVersion),
        ) => {
            "the server and bakeoff have no TLS version or cipher in common: bakeoff speaks TLS 1.2 and 1.3, the \
             community's builds of MySQL before 5.7.28 only 1.0 and 1.1; set tls mode to disabled"
        }
        Some(Error::InvalidCertificate(Certificate::UnknownIssuer)) => {
            "the server's certificate is not signed by the CA file's certificate"
        }
        Some(Error::InvalidCertificate(Certificate::NotValidForName | Certificate::NotValidForNameContext { .. })) => {
            "the server's certificate does not name this host; tls mode verify_ca does not check the name"
        }
        Some(Error::InvalidCertificate(_)) => "the server's certificate is not valid",
        _ if error.kind() == io::ErrorKind::UnexpectedEof => {
            "the server closed the connection in the TLS handshake; perhaps it speaks neither TLS 1.2 nor 1.3"
        }
        _ => return error.to_string(),
    };
    format!("{reason} ({error})")
}

fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    let make = || {
        let mut provider = crypto::ring::default_provider();
        provider.cipher_suites.extend(dhe_cipher_suites());
        provider.kx_groups.push(&MysqlGroup);
        Arc::new(provider)
    };
    Arc::clone(PROVIDER.get_or_init(make))
}

pub(super) fn configuration(options: &TlsOptions) -> Result<Arc<ClientConfig>, SqlError> {
    let provider = provider();
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(tls)?;
    let builder = match options.mode {
        TlsMode::VerifyIdentity => builder.with_root_certificates(authorities(options)?),
        TlsMode::VerifyCa => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Verifier { roots: Some(authorities(options)?), provider })),
        TlsMode::Disabled | TlsMode::Preferred | TlsMode::Required => {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(Verifier { roots: None, provider }))
        }
    };
    let mut config = match (&options.cert, &options.key) {
        (Some(cert), Some(key)) => {
            let private_key = PrivateKeyDer::from_pem_file(key).map_err(|error| unreadable("key", key, &error))?;
            builder
                .with_client_auth_cert(certificates("cert", cert)?, private_key)
                .map_err(|error| tls(format!("tls cert {} and key {}: {error}", cert.display(), key.display())))?
        }
        (None, None) => builder.with_no_client_auth(),
        _ => return Err(tls("give both tls cert and tls key, or neither")),
    };
    // Connections are measured with full handshakes, as with MySQL's own client.
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}

fn authorities(options: &TlsOptions) -> Result<RootCertStore, SqlError> {
    let path = options.ca.as_ref().ok_or_else(|| tls("tls modes verify_ca and verify_identity need a tls ca file"))?;
    let mut roots = RootCertStore::empty();
    for certificate in certificates("ca", path)? {
        roots.add(certificate).map_err(|error| tls(format!("tls ca {}: {error}", path.display())))?;
    }
    Ok(roots)
}

fn certificates(option: &str, path: &Path) -> Result<Vec<CertificateDer<'static>>, SqlError> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    match certificates {
        Ok(certificates) if certificates.is_empty() => {
            Err(tls(format!("tls {option} {}: no certificate in the file", path.display())))
        }
        Ok(certificates) => Ok(certificates),
        Err(error) => Err(unreadable(option, path, &error)),
    }
}

fn unreadable(option: &str, path: &Path, error: &dyn std::fmt::Display) -> SqlError {
    tls(format!("tls {option} {}: {error}", path.display()))
}

/// Verifies that the server owns its certificate and, with `roots`, who signed it. Never checks the host name.
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
    ) -> Result<ServerCertVerified, Error> {
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
    ) -> Result<HandshakeSignatureValid, Error> {
        crypto::verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        crypto::verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Prime of MySQL's built-in group (2048 bits), read off the wire of 8.0.15.
const DHE_PRIME: &[u8] = include_bytes!("mysql_dhe_prime.bin");

const DHE_GENERATOR: &[u8] = &[5];

/// From RFC 7919's private-use range, because the group has no number. Servers that old do not check it.
const DHE_NAME: NamedGroup = NamedGroup::Unknown(0x01fc);

/// RFC 7919 asks for an exponent of at least twice the group's strength of 112 bits.
const EXPONENT_BYTES: usize = 32;

fn dhe_cipher_suites() -> Vec<SupportedCipherSuite> {
    [
        (ring::cipher_suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, CipherSuite::TLS_DHE_RSA_WITH_AES_256_GCM_SHA384),
        (ring::cipher_suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, CipherSuite::TLS_DHE_RSA_WITH_AES_128_GCM_SHA256),
    ]
    .into_iter()
    .filter_map(|(elliptic, suite)| {
        let SupportedCipherSuite::Tls12(elliptic) = elliptic else { return None };
        let finite = Tls12CipherSuite {
            common: CipherSuiteCommon { suite, ..elliptic.common },
            kx: KeyExchangeAlgorithm::DHE,
            ..*elliptic
        };
        // rustls needs it for 'static. The caller creates it once.
        Some(SupportedCipherSuite::Tls12(Box::leak(Box::new(finite))))
    })
    .collect()
}

#[derive(Debug)]
struct MysqlGroup;

impl SupportedKxGroup for MysqlGroup {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        let mut exponent = [0; EXPONENT_BYTES];
        ring::default_provider().secure_random.fill(&mut exponent)?;
        let exponent = BigUint::from_bytes_be(&exponent);
        let prime = BigUint::from_bytes_be(DHE_PRIME);
        let public = padded(&BigUint::from_bytes_be(DHE_GENERATOR).modpow(&exponent, &prime));
        Ok(Box::new(DheExchange { exponent, prime, public }))
    }

    fn ffdhe_group(&self) -> Option<FfdheGroup<'static>> {
        Some(FfdheGroup { p: DHE_PRIME, g: DHE_GENERATOR })
    }

    fn name(&self) -> NamedGroup {
        DHE_NAME
    }

    fn usable_for_version(&self, version: ProtocolVersion) -> bool {
        version == ProtocolVersion::TLSv1_2
    }
}

struct DheExchange {
    exponent: BigUint,
    prime: BigUint,
    public: Vec<u8>,
}

impl ActiveKeyExchange for DheExchange {
    fn complete(self: Box<Self>, peer: &[u8]) -> Result<SharedSecret, Error> {
        let peer = BigUint::from_bytes_be(peer);
        let one = BigUint::from(1_u8);
        // 0, 1 and p − 1 would give the secret away (RFC 7919, section 5.1).
        if peer <= one || peer >= &self.prime - one {
            return Err(PeerMisbehaved::InvalidKeyShare.into());
        }
        Ok(padded(&peer.modpow(&self.exponent, &self.prime)).into())
    }

    fn pub_key(&self) -> &[u8] {
        &self.public
    }

    fn group(&self) -> NamedGroup {
        DHE_NAME
    }
}

fn padded(number: &BigUint) -> Vec<u8> {
    let bytes = number.to_bytes_be();
    let mut padded = vec![0; DHE_PRIME.len().saturating_sub(bytes.len())];
    padded.extend_from_slice(&bytes);
    padded
}

#[cfg(test)]
#[path = "../../tests/unit/net_tls.rs"]
mod tests;

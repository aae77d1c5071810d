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
    AlertDescription, CipherSuite, ClientConfig, ClientConnection, DigitallySignedStruct, Error, InvalidMessage,
    NamedGroup, PeerMisbehaved, ProtocolVersion, RootCertStore, SignatureScheme, SupportedCipherSuite,
    Tls12CipherSuite,
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
            Some(rustls::ProtocolVersion::TLSv1_2) => "TLSv1.2",
            Some(rustls::ProtocolVersion::TLSv1_3) => "TLSv1.3",
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
    use rustls::{CertificateError as Certificate, Error, PeerIncompatible};
    let cause = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    match cause {
        Some(
            Error::AlertReceived(AlertDescription::ProtocolVersion)
            | Error::PeerIncompatible(PeerIncompatible::ServerDoesNotSupportTls12Or13)
            | Error::InvalidMessage(InvalidMessage::UnknownProtocolVersion),
        ) => format!(
            "the server and bakeoff have no TLS version in common ({error}): bakeoff speaks TLS 1.2 and 1.3, the \
             community's builds of MySQL before 5.7.28 only 1.0 and 1.1; set tls mode to disabled"
        ),
        Some(Error::AlertReceived(AlertDescription::HandshakeFailure)) => {
            format!("the server accepts none of bakeoff's TLS versions and ciphers ({error})")
        }
        Some(Error::InvalidCertificate(Certificate::UnknownIssuer)) => {
            "the server's certificate is not signed by the CA file's certificate".to_owned()
        }
        Some(Error::InvalidCertificate(Certificate::NotValidForName | Certificate::NotValidForNameContext { .. })) => {
            format!("the server's certificate does not name this host ({error}); tls mode verify_ca does not check the name")
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

/// Prime of MySQL's built-in group (2048 bits), read off the wire of 8.0.15.
const DHE_PRIME: [u8; 256] = [
    0x8a, 0x5d, 0xfa, 0xc0, 0x66, 0x76, 0x4e, 0x61, 0xfa, 0xca, 0xc0, 0x37, 0x57, 0x5c, 0x6d, 0x3f, 0x83, 0x0a, 0xa1,
    0xf5, 0xf1, 0xe6, 0x7f, 0x3c, 0xc6, 0xaf, 0xda, 0x8b, 0x26, 0xe6, 0x1a, 0x74, 0x5e, 0x64, 0xcb, 0xe2, 0x08, 0xf1,
    0x09, 0xe3, 0xaf, 0xbb, 0x54, 0x29, 0x2d, 0x97, 0xf4, 0x59, 0xe6, 0x26, 0x83, 0x1f, 0x55, 0xcd, 0x1b, 0x57, 0x55,
    0x42, 0x6c, 0xe7, 0xb7, 0xda, 0x6e, 0xd8, 0x6d, 0xee, 0xb1, 0x4f, 0xa4, 0xd7, 0xf5, 0x41, 0xe1, 0xb4, 0x0b, 0xe1,
    0x98, 0x16, 0xe2, 0xed, 0x16, 0xcf, 0x18, 0x7d, 0x3f, 0x25, 0xc3, 0x82, 0x59, 0xbd, 0xf4, 0x8f, 0x57, 0xca, 0x3e,
    0x19, 0xe4, 0xf5, 0x44, 0xe0, 0xcc, 0x80, 0xb3, 0x10, 0x91, 0x18, 0x0d, 0x64, 0x59, 0x0a, 0x43, 0xf7, 0xfc, 0xca,
    0x01, 0xe8, 0x14, 0x04, 0xf2, 0xcd, 0xa9, 0x2a, 0x3c, 0xf3, 0xa5, 0x2a, 0x83, 0xd8, 0x66, 0x9f, 0xc9, 0x2c, 0xc9,
    0x4f, 0x44, 0x05, 0x5e, 0x5e, 0x00, 0x47, 0x22, 0x0a, 0xe6, 0xb0, 0x87, 0xa5, 0x74, 0x3b, 0xe4, 0xa3, 0xfc, 0x2d,
    0xdc, 0x49, 0xf2, 0xe1, 0x80, 0x0d, 0x06, 0x71, 0x7a, 0x77, 0x3a, 0xa9, 0x66, 0x70, 0x3b, 0xba, 0x8d, 0x2e, 0x60,
    0x5a, 0x39, 0xf7, 0x2d, 0xd3, 0xf5, 0x53, 0x47, 0x6e, 0x57, 0x13, 0x01, 0x87, 0xf9, 0xde, 0x4d, 0x20, 0x92, 0xbe,
    0xd7, 0x1e, 0xe0, 0x20, 0x0c, 0x60, 0xc8, 0xca, 0x35, 0x58, 0x7d, 0x3f, 0x59, 0xee, 0xfb, 0x67, 0x7d, 0x64, 0x7d,
    0x8e, 0x77, 0x6c, 0x61, 0x44, 0x8a, 0x8c, 0x4d, 0xf0, 0x12, 0xd4, 0xa4, 0xea, 0x17, 0x75, 0x66, 0x49, 0x6c, 0xcf,
    0x14, 0x28, 0xc6, 0x9a, 0x3c, 0x71, 0xfd, 0xb8, 0x3a, 0x6c, 0xe3, 0xa3, 0xa6, 0x06, 0x5a, 0xa6, 0xf0, 0x7a, 0x00,
    0x15, 0xa5, 0x5a, 0x64, 0x66, 0x00, 0x05, 0x85, 0xb7,
];

const DHE_GENERATOR: [u8; 1] = [5];

/// A number of RFC 7919's private range. The group has no name, and servers of that age do not look.
const DHE_NAME: NamedGroup = NamedGroup::Unknown(0x01fc);

/// RFC 7919 asks for an exponent of twice the group's strength (112 bits). 256 bits are more.
const EXPONENT_BYTES: usize = 32;

fn dhe_cipher_suites() -> Vec<SupportedCipherSuite> {
    [
        (ring::cipher_suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, CipherSuite::TLS_DHE_RSA_WITH_AES_256_GCM_SHA384),
        (ring::cipher_suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, CipherSuite::TLS_DHE_RSA_WITH_AES_128_GCM_SHA256),
    ]
    .into_iter()
    .filter_map(|(elliptic, suite)| {
        let SupportedCipherSuite::Tls12(elliptic) = elliptic else {
            return None;
        };
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
        let prime = BigUint::from_bytes_be(&DHE_PRIME);
        let public = padded(&BigUint::from_bytes_be(&DHE_GENERATOR).modpow(&exponent, &prime));
        Ok(Box::new(DheExchange { exponent, prime, public }))
    }

    fn ffdhe_group(&self) -> Option<FfdheGroup<'static>> {
        Some(FfdheGroup { p: &DHE_PRIME, g: &DHE_GENERATOR })
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

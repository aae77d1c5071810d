//! Finite-field Diffie-Hellman for TLS 1.2, for servers that know no elliptic curves.
//!
//! MySQL 8.0.12 and 8.0.15 as their archives ship (OpenSSL 1.0) offer plain RSA and DHE key exchange only, and always the same DHE
//! group; rustls has neither. The group of those servers is added here, behind everything that rustls prefers.
//!
//! The arithmetic does not run in constant time. The secret serves one connection and is then forgotten, and what travels are
//! benchmark rows: good enough for measuring what TLS costs, and no pattern for anything that must stay secret.

use num_bigint::BigUint;
use rustls::crypto::{
    ActiveKeyExchange, CipherSuiteCommon, KeyExchangeAlgorithm, SharedSecret, SupportedKxGroup, ring,
};
use rustls::ffdhe_groups::FfdheGroup;
use rustls::{CipherSuite, Error, NamedGroup, PeerMisbehaved, ProtocolVersion, SupportedCipherSuite, Tls12CipherSuite};

/// Prime of MySQL's built-in group: 2048 bits, (p − 1) / 2 is prime too. Read off the wire of 8.0.15, where `openssl s_client -msg` shows
/// it in each ServerKeyExchange.
const PRIME: [u8; 256] = [
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

/// Generator of that group.
const GENERATOR: [u8; 1] = [5];

/// A number of RFC 7919's private range: the group has no name, and servers of that age do not look.
const NAME: NamedGroup = NamedGroup::Unknown(0x01fc);

/// Twice the strength of the group (112 bits) is what RFC 7919 asks of the exponent; 256 bits are more.
const EXPONENT_BYTES: usize = 32;

/// DHE with RSA certificates and AES-GCM, made of the parts of the ECDHE suites, which differ in the key exchange alone.
pub(super) fn cipher_suites() -> Vec<SupportedCipherSuite> {
    [
        (
            ring::cipher_suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
            CipherSuite::TLS_DHE_RSA_WITH_AES_256_GCM_SHA384,
        ),
        (
            ring::cipher_suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
            CipherSuite::TLS_DHE_RSA_WITH_AES_128_GCM_SHA256,
        ),
    ]
    .into_iter()
    .filter_map(|(elliptic, suite)| {
        let SupportedCipherSuite::Tls12(elliptic) = elliptic else {
            return None;
        };
        let finite = Tls12CipherSuite {
            common: CipherSuiteCommon {
                suite,
                ..copied(&elliptic.common)
            },
            kx: KeyExchangeAlgorithm::DHE,
            prf_provider: elliptic.prf_provider,
            sign: elliptic.sign,
            aead_alg: elliptic.aead_alg,
        };
        // rustls wants it to live for ever; the caller makes it once.
        Some(SupportedCipherSuite::Tls12(Box::leak(Box::new(finite))))
    })
    .collect()
}

fn copied(common: &CipherSuiteCommon) -> CipherSuiteCommon {
    CipherSuiteCommon {
        suite: common.suite,
        hash_provider: common.hash_provider,
        confidentiality_limit: common.confidentiality_limit,
    }
}

/// The group.
pub(super) static GROUP: &dyn SupportedKxGroup = &MysqlGroup;

#[derive(Debug)]
struct MysqlGroup;

impl SupportedKxGroup for MysqlGroup {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        let mut exponent = [0; EXPONENT_BYTES];
        ring::default_provider().secure_random.fill(&mut exponent)?;
        let exponent = BigUint::from_bytes_be(&exponent);
        let prime = BigUint::from_bytes_be(&PRIME);
        let public = padded(&BigUint::from_bytes_be(&GENERATOR).modpow(&exponent, &prime));
        Ok(Box::new(Exchange {
            exponent,
            prime,
            public,
        }))
    }

    fn ffdhe_group(&self) -> Option<FfdheGroup<'static>> {
        Some(FfdheGroup {
            p: &PRIME,
            g: &GENERATOR,
        })
    }

    fn name(&self) -> NamedGroup {
        NAME
    }

    fn usable_for_version(&self, version: ProtocolVersion) -> bool {
        version == ProtocolVersion::TLSv1_2
    }
}

struct Exchange {
    exponent: BigUint,
    prime: BigUint,
    public: Vec<u8>,
}

impl ActiveKeyExchange for Exchange {
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
        NAME
    }
}

/// Big-endian, as long as the prime.
fn padded(number: &BigUint) -> Vec<u8> {
    let bytes = number.to_bytes_be();
    let mut padded = vec![0; PRIME.len().saturating_sub(bytes.len())];
    padded.extend_from_slice(&bytes);
    padded
}

#[cfg(test)]
#[path = "../../tests/unit/net_tls_dhe.rs"]
mod tests;

//! Tests of `src/net/tls.rs`.

use super::*;

#[test]
fn both_sides_derive_the_same_secret() {
    let (here, there) = (MysqlGroup.start().unwrap(), MysqlGroup.start().unwrap());
    let (ours, theirs) = (here.pub_key().to_vec(), there.pub_key().to_vec());
    assert_ne!(ours, theirs);
    let (one, other) = (here.complete(&theirs).unwrap(), there.complete(&ours).unwrap());
    assert_eq!(one.secret_bytes(), other.secret_bytes());
}

#[test]
fn weak_public_keys_are_refused() {
    let last = padded(&(BigUint::from_bytes_be(DHE_PRIME) - BigUint::from(1_u8)));
    for weak in [&[0][..], &[1], &last, DHE_PRIME] {
        assert!(MysqlGroup.start().unwrap().complete(weak).is_err());
    }
}

#[test]
fn the_dhe_suites_are_rsa_with_aes_gcm() {
    let names: Vec<_> = dhe_cipher_suites().iter().map(|suite| suite.suite().as_str()).collect();
    assert_eq!(names, [Some("TLS_DHE_RSA_WITH_AES_256_GCM_SHA384"), Some("TLS_DHE_RSA_WITH_AES_128_GCM_SHA256")]);
}

#[test]
fn tls_files_are_read_once_per_address() {
    let ca = std::env::temp_dir().join(format!("bakeoff-ca-{}.pem", std::process::id()));
    std::fs::write(&ca, include_str!("../../testdata/ca.pem")).unwrap();
    let options = TlsOptions { mode: TlsMode::VerifyCa, ca: Some(ca.clone()), ..TlsOptions::default() };
    let learned = super::super::Learned::default();
    let first = learned.tls(&options).unwrap();
    std::fs::remove_file(&ca).unwrap();
    assert!(Arc::ptr_eq(&first, &learned.tls(&options).unwrap()));
    // A copy of an address may have other options.
    assert!(learned.clone().tls(&options).is_err());
}

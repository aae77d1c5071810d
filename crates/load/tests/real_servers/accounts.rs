//! Authentication plugins, transports and TLS.

use bakeoff_load::net::{Client, ServerAddress, TlsMode, TlsOptions};
use bakeoff_script::host::{Connection as _, SqlError};

use super::servers::{Flavour, Server, connect, rows, run, servers, value};

/// Creates the account `bakeoff_test_NAME`, replacing an existing one.
fn account(server: &Server, name: &str, identified: &str, password: &str) -> ServerAddress {
    let user = format!("bakeoff_test_{name}");
    let mut root = server.root();
    run(
        &mut root,
        &[
            &format!("DROP USER IF EXISTS '{user}'@'%'"),
            &format!("CREATE USER '{user}'@'%' IDENTIFIED {identified}"),
            &format!("GRANT ALL ON *.* TO '{user}'@'%'"),
        ],
    );
    server.account(&user, password)
}

/// Logs in and checks that it is the account; returns the connection.
fn logs_in(address: &ServerAddress) -> Client {
    let mut client = connect(address.clone()).unwrap_or_else(|error| panic!("{address:?}: {error}"));
    let who = value(&mut client, "SELECT CURRENT_USER()");
    assert!(who.starts_with(&address.user), "{who} is {}", address.user);
    client
}

fn refused(address: ServerAddress) -> SqlError {
    match connect(address) {
        Ok(_) => panic!("the login should have been refused"),
        Err(error) => {
            assert!(error.fatal);
            error
        }
    }
}

#[test]
#[ignore = "needs real servers"]
fn native_password_over_every_transport() {
    for server in servers() {
        let identified = match server.flavour {
            Flavour::MariaDb => "BY 'secret-1'",
            _ => "WITH mysql_native_password BY 'secret-1'",
        };
        let address = account(&server, "native", identified, "secret-1");
        logs_in(&address);
        if let Some(tcp) = server.tcp(address.clone()) {
            logs_in(&tcp);
        }
        let wrong = refused(ServerAddress { password: "secret-X".into(), ..address });
        assert_eq!((wrong.code, &*wrong.sqlstate), (1045, "28000"));
        assert!(!wrong.message.contains("secret-X"));
    }
}

#[test]
#[ignore = "needs real servers"]
fn an_account_without_a_password_can_log_in() {
    for server in servers() {
        let address = account(&server, "empty", "BY ''", "");
        logs_in(&address);
        assert_eq!(refused(ServerAddress { password: "x".into(), ..address }).code, 1045);
    }
}

#[test]
#[ignore = "needs real servers"]
fn caching_sha2_password_slow_and_fast_over_every_transport() {
    for server in servers().into_iter().filter(|server| server.flavour == Flavour::MySql80) {
        let address = account(&server, "sha2", "WITH caching_sha2_password BY 'secret-2'", "secret-2");
        let tls = |mode| TlsOptions { mode, ..TlsOptions::default() };
        let mut ways = vec![address.clone()];
        if let Some(tcp) = server.tcp(address.clone()) {
            ways.push(tcp.clone());
            ways.push(ServerAddress { tls: tls(TlsMode::Required), ..tcp });
        }
        for way in ways {
            // Empty the server's cache, so that the first login needs full authentication.
            run(&mut server.root(), &["FLUSH PRIVILEGES"]);
            let cold = logs_in(&way);
            let warm = logs_in(&way);
            assert_eq!(cold.facts().tls_cipher.is_some(), way.tls.mode == TlsMode::Required);
            assert!(
                cold.traffic().sent_bytes.get() > warm.traffic().sent_bytes.get() || way.tls.mode == TlsMode::Required,
                "the second login is the fast one"
            );
            run(&mut server.root(), &["FLUSH PRIVILEGES"]);
            assert_eq!(refused(ServerAddress { password: "secret-X".into(), ..way }).code, 1045);
        }
    }
}

#[test]
#[ignore = "needs real servers"]
fn sha256_password() {
    for server in servers().into_iter().filter(|server| server.flavour == Flavour::MySql80) {
        let address = account(&server, "sha256", "WITH sha256_password BY 'secret-4'", "secret-4");
        logs_in(&address);
        if let Some(tcp) = server.tcp(address) {
            logs_in(&tcp);
            logs_in(&ServerAddress { tls: TlsOptions { mode: TlsMode::Required, ..TlsOptions::default() }, ..tcp });
        }
    }
}

#[test]
#[ignore = "needs real servers"]
fn ed25519_works_over_every_transport() {
    for server in servers().into_iter().filter(|server| server.flavour == Flavour::MariaDb) {
        let plugins =
            "SELECT 1 FROM information_schema.plugins WHERE plugin_name = 'ed25519' AND plugin_status = 'ACTIVE'";
        if rows(&mut server.root(), plugins).is_empty() {
            eprintln!("ed25519 is not tested: this MariaDB has no auth_ed25519 plugin");
            continue;
        }
        let address = account(&server, "ed25519", "VIA ed25519 USING PASSWORD('secret-3')", "secret-3");
        logs_in(&address);
        if let Some(tcp) = server.tcp(address.clone()) {
            logs_in(&tcp);
        }
        assert_eq!(refused(ServerAddress { password: "secret-X".into(), ..address }).code, 1045);
    }
}

#[test]
#[ignore = "needs real servers"]
fn each_tls_mode_is_enforced() {
    for server in servers() {
        let identified = match server.flavour {
            Flavour::MySql57 | Flavour::MariaDb => "BY 'secret-5'",
            Flavour::MySql80 => "WITH mysql_native_password BY 'secret-5'",
        };
        let address = account(&server, "tls", identified, "secret-5");
        let Some(tcp) = server.tcp(address) else {
            continue;
        };
        let with = |mode, ca: Option<&std::path::Path>| ServerAddress {
            tls: TlsOptions { mode, ca: ca.map(Into::into), ..TlsOptions::default() },
            ..tcp.clone()
        };
        let offered = value(&mut server.root(), "SELECT @@have_ssl") == "YES";
        let modern = server.flavour != Flavour::MySql57;
        logs_in(&with(TlsMode::Disabled, None));
        let preferred = logs_in(&with(TlsMode::Preferred, None));
        assert_eq!(preferred.facts().tls_cipher.is_some(), offered && modern);
        if !(offered && modern) {
            let error = refused(with(TlsMode::Required, None));
            assert_eq!(error.code, 2026);
            let clear = if offered { "no TLS version in common" } else { "does not offer it" };
            assert!(error.message.contains(clear), "{error}");
            continue;
        }
        let mut required = logs_in(&with(TlsMode::Required, None));
        let cipher = required.facts().tls_cipher.clone().unwrap_or_default();
        assert!(cipher.starts_with("TLSv1."), "{cipher}");
        assert!(!rows(&mut required, "SHOW STATUS LIKE 'Ssl_cipher'")[0][1].as_deref().unwrap_or_default().is_empty());
        assert_eq!(refused(with(TlsMode::VerifyCa, None)).code, 2026, "verify_ca without a ca");
        // Each connection is measured with its whole handshake.
        required.reconnect().unwrap();
        assert_eq!(rows(&mut required, "SHOW STATUS LIKE 'Ssl_session_cache_hits'")[0][1].as_deref(), Some("0"));
        let Some(ca) = &server.ca else {
            eprintln!("{:?}: verify_ca is not tested: no …_CA is set", server.flavour);
            continue;
        };
        logs_in(&with(TlsMode::VerifyCa, Some(ca)));
        for stranger in servers().iter().filter_map(|other| other.ca.as_deref()).filter(|other| *other != ca) {
            let error = refused(with(TlsMode::VerifyCa, Some(stranger)));
            assert!(error.code == 2026 && error.message.contains("not signed by"), "{error}");
        }
        // Certificates that MySQL makes for itself name no host; others may.
        match connect(with(TlsMode::VerifyIdentity, Some(ca))) {
            Ok(_) => assert_ne!(server.flavour, Flavour::MySql80),
            Err(error) => assert!(error.code == 2026 && error.message.contains("verify_ca does not check"), "{error}"),
        }
    }
}

#[test]
#[ignore = "needs real servers"]
fn charset_and_collation_are_confirmed() {
    for server in servers() {
        for (charset, collation) in
            [("latin1", "latin1_german1_ci"), ("utf8mb4", "utf8mb4_unicode_ci"), ("cp932", "cp932_bin")]
        {
            let address =
                ServerAddress { charset: charset.into(), collation: Some(collation.into()), ..server.address() };
            let mut client = connect(address).unwrap();
            assert_eq!(client.charset(), (charset, collation));
            assert_eq!(value(&mut client, "SELECT COLLATION('a')"), collation);
        }
        let default = server.root();
        let expected = match server.flavour {
            Flavour::MySql80 => "utf8mb4_0900_ai_ci",
            _ => "utf8mb4_general_ci",
        };
        assert_eq!(default.charset(), ("utf8mb4", expected));
        let unknown = |charset: &str, collation: Option<&str>| {
            refused(ServerAddress { charset: charset.into(), collation: collation.map(Into::into), ..server.address() })
                .code
        };
        assert_eq!(unknown("klingon", None), 1115);
        assert_eq!(unknown("utf8mb4", Some("utf8mb4_klingon_ci")), 1273);
        assert_eq!(unknown("utf8mb4; DROP TABLE x", None), 1115, "never gets to the server");
    }
}

#[test]
#[ignore = "needs real servers"]
fn a_reconnect_restores_the_character_set_without_extra_statements() {
    const NAMES: &str = "SELECT CONCAT_WS(' ', @@character_set_client, @@character_set_connection, @@character_set_results, \
                         @@collation_connection, COLLATION('a'))";
    // How many statements logging in has taken: this one counts itself, too.
    let questions = |client: &mut Client| -> u64 {
        rows(client, "SHOW SESSION STATUS LIKE 'Questions'")[0][1].as_deref().unwrap().parse().unwrap()
    };
    for server in servers() {
        for (charset, collation) in [
            ("utf8mb4", None),
            ("latin1", None),
            ("binary", None),
            ("latin1", Some("latin1_german1_ci")),
            ("utf8mb4", Some("utf8mb4_unicode_ci")),
            ("cp932", Some("cp932_bin")),
        ] {
            let collation = collation.map(str::to_owned);
            let address = ServerAddress { charset: charset.into(), collation, ..server.address() };
            let mut client = connect(address.clone()).unwrap();
            let expected = (value(&mut client, NAMES), client.charset().1.to_owned());
            for reconnect in 1..=3 {
                client.reconnect().unwrap();
                let asked = questions(&mut client);
                assert_eq!((value(&mut client, NAMES), client.charset().1.to_owned()), expected);
                assert!(reconnect == 1 || asked <= 1, "{:?}, {charset}: {asked} statements", server.flavour);
            }
        }
    }
}

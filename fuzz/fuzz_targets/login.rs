#![no_main]

use bakeoff_wire::{Channel, Login, LoginOptions, LoginStep, TlsWish, UTF8MB4_GENERAL_CI};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((&how, mut rest)) = input.split_first() else { return };
    let mut login = Login::new(LoginOptions {
        user: "user".into(),
        password: if how & 8 == 0 { "secret".into() } else { String::new() },
        database: (how & 16 != 0).then(|| "database".into()),
        collation: UTF8MB4_GENERAL_CI,
        tls: if how & 2 == 0 { TlsWish::Never } else { TlsWish::IfOffered },
        channel: if how & 1 == 0 { Channel::Plain } else { Channel::UnixSocket },
        fewer_capabilities: 0,
    });
    let mut out = Vec::new();
    while let Ok((used, step)) = login.receive(rest, &mut out) {
        assert!(used <= rest.len());
        rest = &rest[used..];
        match step {
            LoginStep::StartTls => {
                if login.tls_started(&mut out).is_err() {
                    return;
                }
            }
            LoginStep::Receive if used == 0 => return,
            LoginStep::Done(_) => return,
            LoginStep::Receive | LoginStep::Send => {}
        }
        out.clear();
    }
});

//! The bundled workloads, statement by statement.

mod world;

use bakeoff_script::{ThreadRole, bundled_names};
use world::{World, load_bundled, settings};

#[test]
fn smoke() {
    for name in bundled_names() {
        let world = World::new(2);
        let settings = settings(&[]);
        let script = load_bundled(name, &settings, ThreadRole::Worker(0), &world);
        script.thread_init().unwrap_or_else(|error| panic!("{name}: {error}"));
        script.run().unwrap_or_else(|error| panic!("{name}: {error}"));
        script.thread_done().unwrap_or_else(|error| panic!("{name}: {error}"));
        println!("== {name}");
        for s in world.statements() { println!("{}", &s[..s.len().min(200)]); }
        println!("{:?}", world.calls.borrow());
    }
}

//! Options and commands that scripts declare.

use crate::world::{World, load, settings};
use bakeoff_script::{OptionType, OptionValue, Settings};

#[test]
fn declared_options_are_typed_filled_and_checked() {
    let text = "
        sysbench.cmdline.options = {
          flag = { 'A flag', false }, rate = { 'A number', 2.5 }, name = { 'A text', 'x' }, list = { 'A list', { 'a', 'b' } },
          bare = { 'No default' }, size = { 'Bytes', nil, sysbench.cmdline.ARG_SIZE }, ['with-dash'] = { 'Dashed', 1, sysbench.cmdline.ARG_INT },
          even = { 'Checked', 2, sysbench.cmdline.ARG_INT, function(name, text, value) return value % 2 == 0 end },
        }
        function event() end
        function thread_init()
          local o = sysbench.opt
          print(o.flag, o.rate, o.name, table.concat(o.list, '+'), '[' .. o.bare .. ']', o.size, o.with_dash, o.even)
          print(o.threads, o.mysql_user, o.time, o.mysql_host[1], o.debug)
        end";
    let world = World::new(0);
    let script = load(text, &settings(&[]), &world).expect("loads");
    script.thread_init().expect("runs");
    assert_eq!(world.lines(), ["false\t2.5\tx\ta+b\t[]\t0\t1\t2", "1\tsbtest\t10\tlocalhost\tfalse"]);
    let kinds: Vec<(String, OptionType)> =
        script.declared_options().iter().map(|option| (option.name.clone(), option.kind)).collect();
    assert_eq!(kinds[1], ("even".to_owned(), OptionType::Int));
    assert_eq!(kinds[5], ("rate".to_owned(), OptionType::Double));

    let world = World::new(0);
    let mut given = settings(&[
        ("flag", "on"),
        ("rate", "1k"),
        ("list", "x, y"),
        ("with-dash", "7"),
        ("size", "1M"),
        ("even", "4"),
    ]);
    given.options.insert("name".into(), OptionValue::Int(5));
    given.general.insert("mysql-user".into(), OptionValue::Text("me".into()));
    load(text, &given, &world).expect("loads").thread_init().expect("runs");
    assert_eq!(world.lines(), ["true\t1024\t5\tx+y\t[]\t1048576\t7\t4", "1\tme\t10\tlocalhost\tfalse"]);

    let refused = |name: &str, value: &str| {
        load(text, &settings(&[(name, value)]), &World::new(0)).err().expect("refused").to_string()
    };
    assert_eq!(
        refused("even", "3"),
        "invalid value for option --even: \"3\". It takes a value that the script's own check accepts."
    );
    assert_eq!(refused("flag", "maybe"), "invalid value for option --flag: \"maybe\". It takes on or off.");
    assert_eq!(refused("flagg", "on"), "invalid option: --flagg. Did you mean --flag?");
    assert_eq!(refused("colour", "on"), "invalid option: --colour.");
}

#[test]
fn a_seed_is_available_even_if_none_was_given() {
    let text = "function thread_init() print(sysbench.opt.rand_seed, bakeoff.seed) end";
    let seen = |given: Option<i64>| {
        let mut settings = settings(&[]);
        settings.general.extend(given.map(|seed| ("rand_seed".to_owned(), OptionValue::Int(seed))));
        let world = World::new(0);
        load(text, &settings, &world).expect("loads").thread_init().expect("runs");
        world.lines()[0].clone()
    };
    assert_eq!((seen(None), seen(Some(0))), ("7\t7".to_owned(), "0\t7".to_owned()));
}

#[test]
fn commands_are_the_scripts_own_then_the_built_in_ones() {
    let text = "
        sysbench.cmdline.options = { n = { 'A number', 3 } }
        sysbench.cmdline.commands = {
          fill = { function() print('fill', sysbench.tid) end, sysbench.cmdline.PARALLEL_COMMAND },
          prepare = { function() print('own prepare') end },
        }
        function prepare() print('not this one') end
        function cleanup() print('cleanup', sysbench.cmdline.command_defined('fill'), sysbench.cmdline.command_parallel('prepare')) end";
    let world = World::new(0);
    let script = load(text, &settings(&[]), &world).expect("loads");
    let known: Vec<(&str, bool)> = script.commands().iter().map(|c| (c.name.as_str(), c.parallel)).collect();
    assert_eq!(known, [("fill", true), ("prepare", false), ("cleanup", false), ("help", false)]);
    for name in ["fill", "prepare", "cleanup", "help"] {
        script.command(name).expect(name);
    }
    let expected = ["fill\t0", "own prepare", "cleanup\ttrue\tfalse", "test.lua options:", "  --n=N A number [3]", ""];
    assert_eq!(world.lines(), expected);
    let error = script.command("warmup").expect_err("no such command");
    assert_eq!(error.to_string(), "script test.lua has no command warmup. It has: fill, prepare, cleanup, help.");
}

#[test]
fn a_script_that_requires_a_command_is_described_as_if_for_run() {
    let text = "if not sysbench.cmdline.command then error('Command is required') end
        sysbench.cmdline.options = { tenants = { 'Tenants', { 'red', 'blue' } } }
        if sysbench.cmdline.command == 'run' then function event() end end";
    let description = bakeoff_script::describe(&bakeoff_script::ScriptSource::inline("t.lua", text)).expect("loads");
    assert_eq!(description.declared_options()[0].default_value().to_text(), "red,blue");
    assert!(description.has_event());
}

#[test]
fn oltp_common_wants_a_command_as_in_sysbench() {
    let settings = Settings { command: None, ..settings(&[]) };
    let error = load("require('oltp_common')", &settings, &World::new(0)).err().expect("refused");
    let words = "Command is required. Supported commands: prepare, prewarm, run, cleanup, help";
    assert_eq!(error.to_string(), words);
}

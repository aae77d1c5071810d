#![no_main]

use bakeoff_wire::command::Parameter;
use bakeoff_wire::dialect::{Dialect, MultiByte};
use bakeoff_wire::template::Template;
use libfuzzer_sys::fuzz_target;

const SETS: [MultiByte; 5] = [MultiByte::Safe, MultiByte::Sjis, MultiByte::Gbk, MultiByte::Big5, MultiByte::Gb18030];

fuzz_target!(|input: &[u8]| {
    let Some((&how, rest)) = input.split_first() else { return };
    let dialect = Dialect {
        no_backslash_escapes: how & 1 != 0,
        multi_byte: SETS[usize::from(how >> 1) % SETS.len()],
        ..Dialect::default()
    };
    let template = Template::new(rest, dialect);
    let values = std::iter::repeat(Parameter::Bytes(rest));
    let mut out = Vec::new();
    if template.parameters() < 4 {
        template.render(values, dialect, &mut out);
    }

    // A value must not end its literal early: the `?` behind it stays the only parameter.
    let given = Template::new(b"SELECT ?, ", dialect);
    out.clear();
    given.render([Parameter::Bytes(rest)].into_iter(), dialect, &mut out);
    out.push(b'?');
    assert_eq!(Template::new(&out, dialect).parameters(), 1);
});

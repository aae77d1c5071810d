//! What scripts reach through `ffi.C`: our symbols, and libc's.

use crate::world::{Answer, World, run};

#[test]
fn scripts_can_change_sysbench_counters() {
    let world = World::new(1);
    let text = "
        ffi.cdef('void sb_counter_inc(int, sb_counter_type);')
        function event()
          ffi.C.sb_counter_inc(sysbench.tid, ffi.C.SB_CNT_ERROR)
          ffi.C.sb_counter_add(sysbench.tid, ffi.C.SB_CNT_BYTES_READ, 500)
          print(tonumber(ffi.C.sb_counter_val(sysbench.tid, ffi.C.SB_CNT_BYTES_READ)), ffi.C.SB_CNT_TRX)
        end";
    run(text, &world).expect("runs");
    assert_eq!(world.counters.borrow()[&4], 1);
    assert_eq!(world.lines(), ["500\t3"]);
}

#[test]
fn libc_is_there() {
    let world = World::new(0);
    let text = "
        ffi.cdef('int usleep(unsigned int usec); int getpid(void);')
        function thread_init() print(ffi.C.usleep(1), ffi.C.getpid() > 0, require('ffi') == ffi) end";
    run(text, &world).expect("runs");
    assert_eq!(world.lines(), ["0\ttrue\ttrue"]);
}

#[test]
fn the_database_can_be_driven_through_c_alone() {
    let world = World::new(0);
    world.answer("SELECT a", Answer::Rows(vec![vec![Some("5".to_owned()), None]]));
    let text = r"
        function thread_init()
          local C = ffi.C
          local drv = C.db_create('mysql')
          local con = C.db_connection_create(drv)
          local rs = C.db_query(con, 'SELECT a', 8)
          local row = C.db_fetch_row(rs)
          print(rs.nfields, ffi.string(row.values[0].ptr, row.values[0].len), row.values[1].ptr == nil, C.db_free_results(rs))
          local stmt = C.db_prepare(con, 'INSERT ?', 8)
          local value, is_null = ffi.new('int64_t[1]', 7), ffi.new('char[1]')
          local bind = ffi.new('sql_bind[1]')
          bind[0].type, bind[0].buffer, bind[0].is_null = C.SQL_TYPE_BIGINT, value, is_null
          print(C.db_bind_param(stmt, bind, 1), C.db_execute(stmt).nfields, con.error, C.db_close(stmt))
          print(C.db_create('pgsql') == nil, C.db_connection_close(con), C.db_destroy(drv))
        end";
    run(text, &world).expect("runs");
    assert_eq!(world.lines(), ["2\t5\ttrue\t0", "0\t0\t0\t0", "invalid database driver name: 'pgsql'", "true\t0\t0"]);
    assert_eq!(world.statements(), ["SELECT a", "INSERT 7"]);
}

#[test]
fn c_binds_are_read_at_the_width_of_their_type() {
    let world = World::new(0);
    // Behind each number lie other bytes, and a null length is that of the whole buffer.
    let text = r#"
        local function execute(kind, c_type, values, more)
          local con = ffi.C.db_connection_create(ffi.C.db_create('mysql'))
          local stmt = ffi.C.db_prepare(con, 'SET ?', 5)
          local bind = ffi.new('sql_bind[1]')
          bind[0].type, bind[0].buffer = kind, ffi.new(c_type, values)
          for field, value in pairs(more or {}) do bind[0][field] = value end
          ffi.C.db_bind_param(stmt, bind, 1)
          ffi.C.db_execute(stmt)
        end
        function thread_init()
          local C, length = ffi.C, ffi.new('unsigned long[1]', 3)
          execute(C.SQL_TYPE_TINYINT, 'int8_t[16]', { -7, 1, 1, 1 })
          execute(C.SQL_TYPE_SMALLINT, 'int16_t[8]', { -700, 1, 1 })
          execute(C.SQL_TYPE_INT, 'int32_t[4]', { -70000, 1 })
          execute(C.SQL_TYPE_BIGINT, 'int64_t[2]', { -7000000000, 1 })
          execute(C.SQL_TYPE_FLOAT, 'float[4]', { 0.25, 1 })
          execute(C.SQL_TYPE_DOUBLE, 'double[2]', { 0.125, 1 })
          execute(C.SQL_TYPE_VARCHAR, 'char[8]', 'abcdefg', { max_len = 5 })
          execute(C.SQL_TYPE_CHAR, 'char[8]', 'abcdefg', { max_len = 5, data_len = length })
          execute(C.SQL_TYPE_CHAR, 'char[8]', 'abcdefg', { max_len = 2, data_len = length })
          execute(C.SQL_TYPE_CHAR, 'char[8]', 'abcdefg', { data_len = length })
          execute(C.SQL_TYPE_INT, 'int32_t[4]', { 5 }, { buffer = ffi.cast('void *', nil) })
        end"#;
    run(text, &world).expect("runs");
    let expected =
        ["-7", "-700", "-70000", "-7000000000", "0.25", "0.125", "'abcde'", "'abc'", "'ab'", "'abc'", "NULL"];
    assert_eq!(world.statements(), expected.map(|value| format!("SET {value}")));
}

#[test]
fn a_connection_freed_twice_shares_its_memory_with_no_other() {
    let world = World::new(0);
    let text = "
        function thread_init()
          local con = sysbench.sql.driver():connect()
          ffi.C.db_connection_free(con)
          ffi.C.db_connection_free(con)
          local a, b = sysbench.sql.driver():connect(), sysbench.sql.driver():connect()
          print(a ~= b, a ~= con, b ~= con)
          con = nil
          collectgarbage() collectgarbage()
          local c = sysbench.sql.driver():connect()
          print(c ~= a, c ~= b, a:query_row('SELECT 1'), b:query_row('SELECT 2'))
          a:disconnect()
          print(b:query_row('SELECT 3'))
        end";
    run(text, &world).expect("runs");
    assert_eq!(world.lines(), ["true\ttrue\ttrue", "true\ttrue\t1\t1", "1"]);
    assert_eq!(world.journal.open_connections.get(), 0);
}

#[test]
fn operations_and_thinking_are_passed_to_the_host() {
    let world = World::new(1);
    run("function event() bakeoff.operation('new_order') bakeoff.think(0.5) end", &world).expect("runs");
    assert_eq!(*world.calls.borrow(), ["start", "operation new_order", "think 500000000", "Done"]);
}

#[test]
fn histograms_print_their_buckets() {
    let world = World::new(0);
    let text = "
        local h = sysbench.histogram.new(5, 1, 10000)
        for _, v in ipairs{ 1, 10, 10, 100000 } do h:update(v) end
        h:print()";
    run(text, &world).expect("runs");
    let lines = world.lines();
    assert_eq!(lines.len(), 4, "{lines:?}");
    assert_eq!(lines[2], format!("      10.000 |{} 2", "*".repeat(40)));
}

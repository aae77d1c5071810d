#!/usr/bin/env sysbench
-- The style of TPC-C scripts: C symbols and libc through ffi, text queries, query_row, rollbacks counted by hand.

ffi.cdef("void sb_counter_inc(int, sb_counter_type);")
ffi.cdef("int usleep(unsigned int microseconds);")

sysbench.cmdline.options = {
   scale = { "Warehouses", 1 },
   use_fk = { "Foreign keys", 1 },
   trx_level = { "Isolation level", "RR" },
}

function thread_init()
   drv = sysbench.sql.driver()
   con = drv:connect()
   if sysbench.opt.trx_level == "RR" then
      con:query("SET SESSION transaction_isolation='REPEATABLE-READ'")
   end
   con:query("SET @trx = 1")
end

local function new_order()
   local w = sysbench.rand.uniform(1, sysbench.opt.scale)
   con:query("BEGIN")
   local o_id = con:query_row(("SELECT d_next_o_id FROM district%d WHERE d_w_id = %d FOR UPDATE"):format(1, w))
   con:query(([[INSERT INTO orders%d (o_id) VALUES (%d)]]):format(1, o_id))
   if sysbench.rand.uniform(1, 4) == 1 then
      ffi.C.sb_counter_inc(sysbench.tid, ffi.C.SB_CNT_ERROR)
      con:query("ROLLBACK")
      return
   end
   local rs = con:query("SELECT s_quantity FROM stock")
   for i = 1, rs.nrows do
      local row = rs:fetch_row()
      assert(row[1])
   end
   con:query("COMMIT")
end

function event()
   ffi.C.usleep(1)
   new_order()
end

function thread_done()
   con:disconnect()
end

function sysbench.hooks.before_restart_event(err)
   con:query("ROLLBACK")
end

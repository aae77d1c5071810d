-- In the manner of the TPC-C scripts that people run: counters moved by hand, libc through ffi, rollbacks by choice.

ffi.cdef([[
void sb_counter_inc(int, sb_counter_type);
int usleep(unsigned int);
unsigned int sleep(unsigned int);
]])

sysbench.cmdline.options = {
  scale = { "Warehouses", 2 },
  rollbacks = { "Every n-th order is rolled back", 4 },
}

function prepare()
  local con = sysbench.sql.driver():connect()
  con:query("DROP TABLE IF EXISTS warehouse_s, orders_s")
  con:query("CREATE TABLE warehouse_s (w_id INT PRIMARY KEY, w_next INT NOT NULL)")
  con:query("CREATE TABLE orders_s (o_id INT NOT NULL, w_id INT NOT NULL, amount DECIMAL(8,2), PRIMARY KEY (w_id, o_id))")
  for w = 1, sysbench.opt.scale do
    con:query("INSERT INTO warehouse_s VALUES (" .. w .. ", 1)")
  end
end

function cleanup()
  local con = sysbench.sql.driver():connect()
  con:query("DROP TABLE IF EXISTS warehouse_s, orders_s")
end

function thread_init()
  drv = sysbench.sql.driver()
  con = drv:connect()
  orders = 0
end

local function new_order()
  local w = sysbench.rand.uniform(1, sysbench.opt.scale)
  con:query("BEGIN")
  local next_id = con:query_row("SELECT w_next FROM warehouse_s WHERE w_id = " .. w .. " FOR UPDATE")
  con:query("UPDATE warehouse_s SET w_next = w_next + 1 WHERE w_id = " .. w)
  con:query(string.format("INSERT INTO orders_s VALUES (%d, %d, %f)", next_id, w, sysbench.rand.uniform_double() * 100))
  orders = orders + 1
  if orders % sysbench.opt.rollbacks == 0 then
    con:query("ROLLBACK")
    ffi.C.sb_counter_inc(sysbench.tid, ffi.C.SB_CNT_ERROR)
  else
    con:query("COMMIT")
  end
end

function event()
  ffi.C.usleep(200)
  new_order()
end

function sysbench.hooks.report_intermediate(stat)
  local seconds = stat.time_interval
  print(string.format("[ %.0fs ] thds: %u tps: %4.2f err/s %4.2f", stat.time_total, stat.threads_running,
    stat.events / seconds, stat.errors / seconds))
end

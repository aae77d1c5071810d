-- One INSERT in each event, as text. With --auto_inc=off the client gives the ids: numbers that no thread gives twice, into
-- tables that `prepare` leaves empty.

require("oltp_common")

sysbench.cmdline.commands.prepare = {
  function()
    if not sysbench.opt.auto_inc then
      sysbench.opt.table_size = 0
    end
    cmd_prepare()
  end,
  sysbench.cmdline.PARALLEL_COMMAND,
}

-- Nothing: the INSERT goes as text.
function prepare_statements() end

function event()
  local name = "sbtest" .. sysbench.rand.uniform(1, sysbench.opt.tables)
  local k = sysbench.rand.default(1, sysbench.opt.table_size)
  -- 0 asks for the next AUTO_INCREMENT value; else all 32-bit numbers, as signed ones.
  local id = sysbench.opt.auto_inc and 0 or sysbench.rand.unique() - 2147483648
  con:query(string.format("INSERT INTO %s (id, k, c, pad) VALUES (%d, %d, '%s', '%s')",
    name, id, k, get_c_value(), get_pad_value()))
  check_reconnect()
end

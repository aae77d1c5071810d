-- Commands of a script, some of them parallel.

local function fill()
   local con = sysbench.sql.driver():connect()
   for i = sysbench.tid % sysbench.opt.threads + 1, sysbench.opt.tables, sysbench.opt.threads do
      con:query(string.format("CREATE TABLE t%d (id INT)", i))
   end
   con:disconnect()
end

local function drop()
   local con = sysbench.sql.driver():connect()
   con:query("DROP TABLE t1")
end

sysbench.cmdline.options = { tables = { "Tables", 6 } }

sysbench.cmdline.commands = {
   fill = { fill, sysbench.cmdline.PARALLEL_COMMAND },
   drop = { drop },
   fail = { function() error("on purpose") end, sysbench.cmdline.PARALLEL_COMMAND },
}

function event() end

-- The commonest style: everything from oltp_common, one option and one kind of query more.

require("oltp_common")

sysbench.cmdline.options.hot_rows = { "Number of reads of the first ten rows", 2 }

function prepare_statements()
   if not sysbench.opt.skip_trx then
      prepare_begin()
      prepare_commit()
   end
   sysbench.opt.point_selects = 1
   prepare_point_selects()
   prepare_index_updates()
end

function event()
   begin()
   for i = 1, sysbench.opt.hot_rows do
      local tnum = sysbench.rand.uniform(1, sysbench.opt.tables)
      param[tnum].point_selects[1]:set(sysbench.rand.uniform(1, 10))
      stmt[tnum].point_selects:execute()
   end
   execute_index_updates()
   commit()
   check_reconnect()
end

-- Errors ignored and reports made by hooks.

sysbench.hooks.report_cumulative = sysbench.report_json

function sysbench.hooks.sql_error_ignorable(err)
   if err.sql_errno == 1062 then
      print("ignoring " .. err.sql_errno)
      return true
   end
end

function sysbench.hooks.before_restart_event(err)
   print("restarting after " .. err.sql_errno)
end

function thread_init()
   con = sysbench.sql.driver():connect()
end

function event()
   con:query("UPDATE counters SET n = n + 1")
end

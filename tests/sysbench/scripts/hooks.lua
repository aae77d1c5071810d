-- Errors forgiven by a hook, and reports as JSON.

local calls = 0

function thread_init()
  con = sysbench.sql.driver():connect()
end

function event()
  calls = calls + 1
  con:query("SELECT 1")
  if calls % 10 == 0 then
    con:query("SIGNAL SQLSTATE '45000' SET mysql_errno = 1644, message_text = 'injected'")
  end
end

function sysbench.hooks.sql_error_ignorable(err)
  return err.sql_errno == 1644 and err.sql_state == "45000" and err.sql_errmsg == "injected"
end

function sysbench.hooks.before_restart_event(err)
  assert(err.connection == con)
end

sysbench.hooks.report_intermediate = sysbench.report_json
sysbench.hooks.report_cumulative = sysbench.report_json

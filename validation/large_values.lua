-- Builds a string of 40 MB an event: glibc gives its memory back to the kernel each time, other allocators keep it.

require("oltp_common")

function prepare_statements() end

function event()
  con:query("SELECT LENGTH(REPEAT(REPEAT('x', 1000), 40000))")
end

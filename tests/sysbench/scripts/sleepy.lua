-- No server: each event takes --sleep-us.

ffi.cdef("int usleep(unsigned int);")

sysbench.cmdline.options = { sleep_us = { "Length of an event", 1000 } }

function event()
  ffi.C.usleep(sysbench.opt.sleep_us)
end

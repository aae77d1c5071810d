-- Says what it was given.

sysbench.cmdline.options = {
  table_size = { "Rows", 10 },
  flag = { "A flag", false },
  on_flag = { "A flag that is on", true },
  words = { "Words", { "a", "b" } },
  text = { "A text", "none" },
}

function prepare()
  local opt = sysbench.opt
  print("table_size", opt.table_size)
  print("flag", opt.flag)
  print("on_flag", opt.on_flag)
  print("words", table.concat(opt.words, "+"))
  print("text", opt.text)
  print("threads", opt.threads)
  print("histogram", opt.histogram)
  print("percentile", opt.percentile)
  print("mysql_port", opt.mysql_port[1])
end

function event() end

-- Ready-made report hooks: sysbench.hooks.report_intermediate = sysbench.report_csv

local function rates(stat)
  local seconds = stat.time_interval
  local per_second = function(count) return seconds > 0 and count / seconds or 0 end
  return {
    tps = per_second(stat.events),
    qps = per_second(stat.reads + stat.writes + stat.other),
    reads = per_second(stat.reads),
    writes = per_second(stat.writes),
    other = per_second(stat.other),
    errors = per_second(stat.errors),
    reconnects = per_second(stat.reconnects),
  }
end

local function latency_ms(stat)
  return (stat.latency_pct or 0) * 1000
end

function sysbench.report_default(stat)
  local rate = rates(stat)
  print(string.format(
    "[ %.0fs ] thds: %u tps: %4.2f qps: %4.2f (r/w/o: %4.2f/%4.2f/%4.2f) lat (ms,%s%%): %4.2f err/s %4.2f reconn/s: %4.2f",
    stat.time_total, stat.threads_running, rate.tps, rate.qps, rate.reads, rate.writes, rate.other,
    sysbench.opt.percentile or 95, latency_ms(stat), rate.errors, rate.reconnects))
end

-- time,threads,tps,qps,r/s,w/s,o/s,lat_ms,err/s,reconn/s
function sysbench.report_csv(stat)
  local rate = rates(stat)
  print(string.format("%.0f,%u,%4.2f,%4.2f,%4.2f,%4.2f,%4.2f,%4.2f,%4.2f,%4.2f",
    stat.time_total, stat.threads_running, rate.tps, rate.qps, rate.reads, rate.writes, rate.other,
    latency_ms(stat), rate.errors, rate.reconnects))
end

-- Global, as in sysbench. One array for the whole run: opened by the first report, closed when the state is. The last
-- line of each report waits for the next, which adds its comma.
gobj = nil

local function open_array()
  gobj = newproxy(true)
  getmetatable(gobj).__gc = function()
    print("  }\n]")
  end
end

function sysbench.report_json(stat)
  local rate = rates(stat)
  local object = string.format([[
  {
    "time": %4.0f,
    "threads": %u,
    "tps": %4.2f,
    "qps": {
      "total": %4.2f,
      "reads": %4.2f,
      "writes": %4.2f,
      "other": %4.2f
    },
    "latency": %4.2f,
    "errors": %4.2f,
    "reconnects": %4.2f]], stat.time_total, stat.threads_running, rate.tps, rate.qps, rate.reads, rate.writes, rate.other,
    latency_ms(stat), rate.errors, rate.reconnects)
  print((gobj and "  },\n" or "[\n") .. object)
  if not gobj then
    open_array()
  end
end

-- TPC-C's results after a run: tpmC and the standard's constraints, as `bakeoff.tpcc.results` defines them for duels.

local report = {}

-- Type, 90th percentile at most [s] (clause 5.2.5.3), least share of all (5.2.3).
local RULES = {
   {"new_order", 5, 0},
   {"payment", 5, 0.43},
   {"order_status", 5, 0.04},
   {"delivery", 5, 0.04},
   {"stock_level", 20, 0.04}
}
-- New-Orders per minute that a warehouse's ten terminals can enter at the standard's pace (clause 4.1.3).
local TPMC_PER_WAREHOUSE_MAX = 12.86
-- A share that misses its limit by fewer standard deviations is not judged.
local NOISE_SD = 3

local OK, TOO_FEW = "OK", "too few to tell"

-- Judges a share: OK, TOO_FEW if it misses its limits by no more than chance explains, else what is not OK.
local function judge(name, count, of, least, most, nominal)
   if of == 0 then
      return TOO_FEW
   end
   local share = count / of
   local missed_by = math.max(least - share, share - most)
   if missed_by <= 0 then
      return OK
   elseif missed_by < NOISE_SD * math.sqrt(nominal * (1 - nominal) / of) then
      return TOO_FEW
   end
   return string.format("%s %.2f%%", name, 100 * share)
end

local function verdict(judgements)
   local failed, answer = {}, OK
   for _, judgement in ipairs(judgements) do
      if judgement == TOO_FEW then
         answer = TOO_FEW
      elseif judgement ~= OK then
         failed[#failed + 1] = judgement
      end
   end
   return failed[1] and "not OK: " .. table.concat(failed, ", ") or answer
end

local function line(name, form, ...)
   print(string.format("    %-37s" .. form, name .. ":", ...))
end

-- Prints nothing if no TPC-C transaction was counted.
function report.print(stat, settings)
   local function count(name)
      return stat.operations[name] and stat.operations[name].count or 0
   end
   local all, late, mix, retried = 0, {}, {}, 0
   for _, rule in ipairs(RULES) do
      all = all + count(rule[1])
   end
   if all == 0 then
      return
   end
   for _, rule in ipairs(RULES) do
      local name, limit_s, least = rule[1], rule[2], rule[3]
      local found = stat.operations[name]
      if found and found.p90 > limit_s then
         late[#late + 1] = string.format("%s %.1f s of at most %d s", name, found.p90, limit_s)
      end
      if least > 0 then
         mix[#mix + 1] = judge(name, count(name), all, least, 1, least)
      end
      retried = retried + count(name .. ".retried")
   end
   local function per_minute(number)
      return stat.time_interval > 0 and 60 * number / stat.time_interval or 0
   end
   local orders = count("new_order")
   local tpmc = per_minute(orders)
   print("TPC-C (not an audited result):")
   line("tpmC", "%.2f", tpmc)
   line("tpmTotal", "%.2f", per_minute(all))
   if settings.keying and settings.thinking then
      local most = TPMC_PER_WAREHOUSE_MAX * settings.warehouses * settings.sets
      line("efficiency", "%.1f%% of 12.86 a warehouse", 100 * tpmc / most)
   end
   line("response times (90%)", "%s", verdict(late))
   line("mix", "%s", verdict(mix))
   line("rollbacks (1%)", "%s", verdict({judge("rollbacks", count("new_order.rollback"), orders, 0.009, 0.011, 0.01)}))
   local skipped = judge("skipped", count("delivery.skipped"), count("delivery"), 0, 0.01, 0.01)
   line("deliveries skipped", "%s", verdict({skipped}))
   line("retried", "%d after %d deadlocks and lock waits", retried, stat.errors)
   print()
end

return report

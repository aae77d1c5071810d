-- Random input of TPC-C (clauses 2.1.6, 4.3.2 and 5.2.4), as functions of a source of uniform integers.
--
-- A "source" is a function uniform(a, b) that returns an integer in [a, b]. Loading uses `random.stream`, so that rows
-- depend only on the seed, not on the threads. Running uses sysbench.rand.uniform, so that arms get equal streams.
local bit = require("bit")

local random = {}

local SYLLABLES = {
   [0] = "BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"
}

-- Two hashes of 32 bits, joined to an integer of 52: doubles hold it exactly.
local function hash(text)
   local low, high = 5381, 1
   for i = 1, #text do
      low = bit.bxor(bit.tobit(low * 33), text:byte(i))
      high = bit.bxor(bit.tobit(high * 31), text:byte(i))
   end
   return low % 2^32 + high % 2^20 * 2^32
end

--- Restarts the stream of this seed and these names and returns it as a source. A Lua state has one stream at a time.
function random.stream(seed, ...)
   math.randomseed(hash(table.concat({string.format("%.0f", seed), ...}, "/")))
   return math.random
end

--- Non-uniform random integer in [x, y] (clause 2.1.6); `a` is its constant A (255, 1023 or 8191), `c` the run's constant C.
function random.nurand(uniform, a, c, x, y)
   return (bit.bor(uniform(0, a), uniform(x, y)) + c) % (y - x + 1) + x
end

--- The last name of a number in [0, 999] (clause 4.3.2.3).
function random.last_name(number)
   return SYLLABLES[math.floor(number / 100)] .. SYLLABLES[math.floor(number / 10) % 10] .. SYLLABLES[number % 10]
end

--- May C-Run follow C-Load for last names (clause 2.1.6.1)?
function random.c_run_is_valid(c_load, c_run)
   local delta = math.abs(c_run - c_load)
   return delta >= 65 and delta <= 119 and delta ~= 96 and delta ~= 112
end

--- C-Load: the constant of last names while loading, in [0, 255].
function random.load_constant(seed)
   return random.stream(seed, "c-load")(0, 255)
end

--- The three constants of a run: {last_name, customer, item}. Every terminal gets the same (clause 2.1.6.1).
function random.run_constants(seed, c_load)
   local valid = {}
   for c = 0, 255 do
      if random.c_run_is_valid(c_load, c) then
         valid[#valid + 1] = c
      end
   end
   local uniform = random.stream(seed, "c-run")
   return {
      last_name = valid[uniform(1, #valid)],
      customer = uniform(0, 1023),
      item = uniform(0, 8191)
   }
end

--- A random order of 1..n (4.3.3.1: each customer has one initial order).
function random.permutation(uniform, n)
   local order = {}
   for i = 1, n do
      order[i] = i
   end
   for i = n, 2, -1 do
      local j = uniform(1, i)
      order[i], order[j] = order[j], order[i]
   end
   return order
end

--- A function that answers true for exactly `wanted` of its next `total` calls, each set of calls being equally likely.
function random.chooser(uniform, wanted, total)
   return function()
      local chosen = uniform(1, total) <= wanted
      total = total - 1
      if chosen then
         wanted = wanted - 1
      end
      return chosen
   end
end

--- A dealer of transaction types from shuffled decks (5.2.4.2): `counts` is a list of {name, cards}.
function random.deck(uniform, counts)
   local cards = {}
   for _, entry in ipairs(counts) do
      for _ = 1, entry[2] do
         cards[#cards + 1] = entry[1]
      end
   end
   local left = 0
   return function()
      if left == 0 then
         left = #cards
      end
      local pick = uniform(1, left)
      cards[pick], cards[left] = cards[left], cards[pick]
      left = left - 1
      return cards[left + 1]
   end
end

--- A dealer that draws each type independently, `counts` being weights.
function random.weighted(uniform, counts)
   local total = 0
   for _, entry in ipairs(counts) do
      total = total + entry[2]
   end
   return function()
      local draw = uniform(1, total)
      for _, entry in ipairs(counts) do
         if draw <= entry[2] then
            return entry[1]
         end
         draw = draw - entry[2]
      end
   end
end

--- Keying and mean thinking times [s] of each type (clause 5.2.5.7); thinking is exponential, cut at ten means.
random.KEYING_S = {new_order = 18, payment = 3, order_status = 2, delivery = 2, stock_level = 2}
random.THINKING_S = {new_order = 12, payment = 12, order_status = 10, delivery = 5, stock_level = 5}

--- A thinking time [s] with this mean (clause 5.2.5.4).
function random.thinking_s(uniform, mean_s)
   local drawn = -math.log(uniform(1, 2^30) / 2^30) * mean_s
   return math.min(drawn, 10 * mean_s)
end

return random

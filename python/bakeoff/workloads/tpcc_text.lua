-- Values as text in a byte buffer: random letters and digits, whole and decimal numbers.
--
-- The text of a warehouse is about 75 MB, most of it random letters: they are drawn four at a time, two of each half of one random
-- number, so that generating costs far less than the server's work on them.
local ffi = require("ffi")

local text = {}

local ALNUM = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
local LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
local DIGITS = "0123456789"

local POINT, ZERO = 46, 48

--- Letters are written four at a time and may run so many bytes over the end of their string.
text.OVERRUN = 3

-- All pairs of an alphabet's characters, and how many draws of four there are.
local function pairs_of(alphabet)
   local n = #alphabet
   local table_of_pairs = ffi.new("uint8_t[?]", 2 * n * n)
   for i = 0, n * n - 1 do
      table_of_pairs[2 * i] = alphabet:byte(math.floor(i / n) + 1)
      table_of_pairs[2 * i + 1] = alphabet:byte(i % n + 1)
   end
   return {bytes = table_of_pairs, count = n * n, fours = n ^ 4}
end

text.alnum, text.letters, text.digits = pairs_of(ALNUM), pairs_of(LETTERS), pairs_of(DIGITS)

--- Writes `length` random characters of an alphabet from `at` on. Returns the place after them.
function text.put_random(uniform, bytes, at, alphabet, length)
   local two, count, fours = alphabet.bytes, alphabet.count, alphabet.fours
   for i = at, at + length - 1, 4 do
      local draw = uniform(0, fours - 1)
      local high = math.floor(draw / count)
      local low = draw - high * count
      bytes[i], bytes[i + 1] = two[2 * high], two[2 * high + 1]
      bytes[i + 2], bytes[i + 3] = two[2 * low], two[2 * low + 1]
   end
   return at + length
end

--- Writes a non-negative whole number with at least `least` digits. Returns the place after it.
function text.put_digits(bytes, at, value, least)
   local digits, rest = 1, math.floor(value / 10)
   while rest > 0 do
      digits, rest = digits + 1, math.floor(rest / 10)
   end
   digits = math.max(digits, least)
   for i = digits - 1, 0, -1 do
      local tens = math.floor(value / 10)
      bytes[at + i] = ZERO + value - tens * 10
      value = tens
   end
   return at + digits
end

--- Writes a number with `places` digits after the point, given as an integer of its last place (1234, 2 is 12.34).
function text.put_decimal(bytes, at, value, places)
   local whole = math.floor(value / 10 ^ places)
   at = text.put_digits(bytes, at, whole, 1)
   bytes[at] = POINT
   return text.put_digits(bytes, at + 1, value - whole * 10 ^ places, places)
end

--- Writes I_DATA or S_DATA: an a-string [26 .. 50], with ORIGINAL somewhere in it if `original` (clause 4.3.3.1).
function text.put_data(uniform, bytes, at, original)
   local length = uniform(26, 50)
   local after = text.put_random(uniform, bytes, at, text.alnum, length)
   if original then
      ffi.copy(bytes + at + uniform(0, length - 8), "ORIGINAL", 8)
   end
   return after
end

--- Writes a zip code: four random digits and 11111 (clause 4.3.2.7).
function text.put_zip(uniform, bytes, at)
   at = text.put_random(uniform, bytes, at, text.digits, 4)
   ffi.copy(bytes + at, "11111", 5)
   return at + 5
end

--- A row's columns "a, b = 0, c" as the head and the values of an INSERT: "INSERT INTO t (a, b, c) VALUES ", "(?,0,?)".
function text.insert_of(table_name, columns)
   local names, values = {}, {}
   for column in columns:gmatch("[^,]+") do
      local name, fixed = column:match("^%s*(%S+)%s*=%s*(.-)%s*$")
      names[#names + 1] = name or column:match("%S+")
      values[#values + 1] = fixed or "?"
   end
   return string.format("INSERT INTO %s (%s) VALUES ", table_name, table.concat(names, ", ")),
      "(" .. table.concat(values, ",") .. ")"
end

return text

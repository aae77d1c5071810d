-- Builds multi-row INSERT statements in one reused byte buffer. A row is written value by value: rows:open() … rows:close().
--
-- The text of a warehouse is about 75 MB, most of it random letters: they are drawn four at a time, two of each half of one random
-- number, so that generating costs far less than the server's work on them.
local ffi = require("ffi")
local random = require("tpcc_random")

local rows = {}
rows.__index = rows

local ALNUM = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
local LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
local DIGITS = "0123456789"

local ROW_BYTES_MAX = 4096 -- no row of TPC-C is longer: customer, with 500 bytes of data, is about 800
local QUOTE, COMMA, OPEN, CLOSE, POINT, ZERO = 39, 44, 40, 41, 46, 48

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

local PAIRS = {alnum = pairs_of(ALNUM), letters = pairs_of(LETTERS), digits = pairs_of(DIGITS)}

--- A writer of rows that hands each statement of about `batch_bytes` to `send(sql, rows)`.
function rows.new(batch_bytes, send)
   return setmetatable({
      batch_bytes = batch_bytes,
      send = send,
      -- Random letters are written four at a time and may run three bytes over the end of their string.
      bytes = ffi.new("uint8_t[?]", batch_bytes + ROW_BYTES_MAX + 4),
      at = 0,
      count = 0,
      uniform = nil,
      head = ""
   }, rows)
end

--- Starts rows of another statement head ("INSERT INTO t VALUES "); those before it are sent.
function rows:into(head)
   self:flush()
   self.head = head
   ffi.copy(self.bytes, head, #head)
   self.at = #head
end

function rows:open()
   local bytes, at = self.bytes, self.at
   if self.count > 0 then
      bytes[at] = COMMA
      at = at + 1
   end
   bytes[at] = OPEN
   self.at = at + 1
end

function rows:close()
   self.bytes[self.at - 1] = CLOSE -- in place of the comma after the last value
   self.count = self.count + 1
   if self.at >= self.batch_bytes then
      self:flush()
   end
end

function rows:flush()
   if self.count > 0 then
      self.send(ffi.string(self.bytes, self.at), self.count)
      self.count = 0
      self.at = #self.head
   end
end

--- SQL as it stands: a constant, NULL, a quoted literal.
function rows:raw(sql)
   ffi.copy(self.bytes + self.at, sql, #sql)
   self.at = self.at + #sql
   self.bytes[self.at] = COMMA
   self.at = self.at + 1
end

local function put_digits(bytes, at, value, least)
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

--- A whole number, not negative.
function rows:int(value)
   local at = put_digits(self.bytes, self.at, value, 1)
   self.bytes[at] = COMMA
   self.at = at + 1
end

--- A decimal number with `places` digits after the point, given as an integer of its last place (1234, 2 is 12.34).
function rows:decimal(value, places)
   local bytes = self.bytes
   local whole = math.floor(value / 10 ^ places)
   local at = put_digits(bytes, self.at, whole, 1)
   bytes[at] = POINT
   at = put_digits(bytes, at + 1, value - whole * 10 ^ places, places)
   bytes[at] = COMMA
   self.at = at + 1
end

local function put_random(uniform, bytes, at, alphabet, length)
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

function rows:random(alphabet, least, most)
   local bytes, at = self.bytes, self.at
   bytes[at] = QUOTE
   at = put_random(self.uniform, bytes, at + 1, alphabet, least == most and least or self.uniform(least, most))
   bytes[at], bytes[at + 1] = QUOTE, COMMA
   self.at = at + 2
end

--- Random a-string [least .. most] (clause 4.3.2.2).
function rows:astring(least, most)
   self:random(PAIRS.alnum, least, most)
end

--- So many random letters.
function rows:letters(length)
   self:random(PAIRS.letters, length, length)
end

--- Random n-string of this length (clause 4.3.2.2).
function rows:nstring(length)
   self:random(PAIRS.digits, length, length)
end

--- A zip code: four random digits and 11111 (clause 4.3.2.7).
function rows:zip()
   self:random(PAIRS.digits, 4, 4)
   ffi.copy(self.bytes + self.at - 2, "11111',", 7)
   self.at = self.at + 5
end

--- I_DATA or S_DATA: an a-string [26 .. 50], with ORIGINAL somewhere in it if `original` (clause 4.3.3.1).
function rows:data(original)
   local from = self.at + 1
   self:random(PAIRS.alnum, 26, 50)
   if original then
      local length = self.at - 2 - from
      ffi.copy(self.bytes + from + self.uniform(0, length - 8), "ORIGINAL", 8)
   end
end

--- Two streets, city, state and zip, as every address of the standard has them.
function rows:address()
   self:astring(10, 20)
   self:astring(10, 20)
   self:astring(10, 20)
   self:letters(2)
   self:zip()
end

--- Draws from this seed and these names from now on.
function rows:reseed(seed, ...)
   self.uniform = random.stream(seed, ...)
end

return rows

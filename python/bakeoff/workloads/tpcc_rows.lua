-- Rows as multi-row INSERTs in text, in one reused byte buffer. A row is written by value: rows:open() … rows:close().
-- tpcc_bound_rows does the same by prepared statements.
local ffi = require("ffi")
local random = require("tpcc_random")
local text = require("tpcc_text")

local rows = {}
rows.__index = rows

local ROW_BYTES_MAX = 4096 -- no row of TPC-C is longer: customer, with 500 bytes of data, is about 800
local QUOTE, COMMA = 39, 44

--- A writer of rows on `con` with statements of about `batch_bytes`; calls `sent(rows)` after each.
function rows.new(con, batch_bytes, sent)
   return setmetatable({
      con = con,
      batch_bytes = batch_bytes,
      sent = sent,
      bytes = ffi.new("uint8_t[?]", batch_bytes + ROW_BYTES_MAX + text.OVERRUN + 1),
      at = 0,
      count = 0,
      head = "",
      pieces = {}, -- SQL before, between and after the values of a row
      piece = 0
   }, rows)
end

--- Sends pending rows and starts another table. In "a, b = 0, c", a and c are written for each row and b is constant.
function rows:into(table_name, columns)
   self:flush()
   local head, values = text.insert_of(table_name, columns)
   self.head, self.pieces = head, {}
   for piece in (values .. "?"):gmatch("(.-)%?") do
      self.pieces[#self.pieces + 1] = piece
   end
   ffi.copy(self.bytes, head, #head)
   self.at = #head
end

-- The SQL up to the next value, or to the row's end.
local function go_on(self, at)
   local piece = self.pieces[self.piece + 1]
   self.piece = self.piece + 1
   ffi.copy(self.bytes + at, piece, #piece)
   self.at = at + #piece
end

function rows:open()
   local at = self.at
   if self.count > 0 then
      self.bytes[at] = COMMA
      at = at + 1
   end
   self.piece = 0
   go_on(self, at)
end

function rows:close()
   assert(self.piece == #self.pieces, self.head)
   self.count = self.count + 1
   if self.at >= self.batch_bytes then
      self:flush()
   end
end

function rows:flush()
   if self.count > 0 then
      self.con:query(ffi.string(self.bytes, self.at))
      self.sent(self.count)
      self.count = 0
      self.at = #self.head
   end
end

local function put_string(self, value)
   ffi.copy(self.bytes + self.at, value, #value)
   go_on(self, self.at + #value)
end

--- A whole number, not negative; nil is NULL.
function rows:int(value)
   if not value then
      return put_string(self, "NULL")
   end
   go_on(self, text.put_digits(self.bytes, self.at, value, 1))
end

--- A decimal number with `places` digits after the point, given as an integer of its last place (1234, 2 is 12.34).
function rows:decimal(value, places)
   go_on(self, text.put_decimal(self.bytes, self.at, value, places))
end

--- A text without quotes or backslashes in it; nil is NULL.
function rows:text(value)
   put_string(self, value and "'" .. value .. "'" or "NULL")
end

local function quoted(self, put, ...)
   self.bytes[self.at] = QUOTE
   local at = put(self.uniform, self.bytes, self.at + 1, ...)
   self.bytes[at] = QUOTE
   go_on(self, at + 1)
end

--- Random a-string [least .. most] (clause 4.3.2.2).
function rows:astring(least, most)
   quoted(self, text.put_random, text.alnum, self.uniform(least, most))
end

--- `length` random letters.
function rows:letters(length)
   quoted(self, text.put_random, text.letters, length)
end

--- Random n-string of this length (clause 4.3.2.2).
function rows:nstring(length)
   quoted(self, text.put_random, text.digits, length)
end

--- I_DATA or S_DATA.
function rows:data(original)
   quoted(self, text.put_data, original)
end

--- A zip code.
function rows:zip()
   quoted(self, text.put_zip)
end

--- Two streets, city, state and zip, as every address of the standard has them.
function rows:address()
   self:astring(10, 20)
   self:astring(10, 20)
   self:astring(10, 20)
   self:letters(2)
   self:zip()
end

--- Draws from this seed and these names from now on. Rows not yet sent are dropped.
function rows:reseed(seed, ...)
   self.uniform = random.stream(seed, ...)
   self.count = 0
   self.at = #self.head
end

return rows

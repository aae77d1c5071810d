-- bakeoff.text: texts of a content (letters of a script, words, identifiers …) in a connection's character set.

local C = ffi.C

local WHY_BYTES = 300
local MOST_CHARACTERS = 2^28
local buffer, room = ffi.new("char[?]", 4096), 4096

local function check(characters)
  if not (characters >= 0 and characters <= MOST_CHARACTERS) then
    error(string.format("a text has 0 to %d characters, not %s", MOST_CHARACTERS, tostring(characters)), 3)
  end
end

-- No character takes more than four bytes.
local function grow(characters)
  if characters * 4 > room then
    room = characters * 4
    buffer = ffi.new("char[?]", room)
  end
end

local methods = {}

-- Draws a text of so many characters from the thread's random stream.
function methods:draw(characters)
  check(characters)
  grow(characters)
  return ffi.string(buffer, C.bakeoff_texts_draw(self, characters, buffer, room))
end

-- The text that belongs to a whole number, 0 to 2^53: the same in every run, on every thread and server.
function methods:of(number, characters)
  check(characters)
  grow(characters)
  return ffi.string(buffer, C.bakeoff_texts_of(self, number, characters, buffer, room))
end

-- Draws straight into a parameter of type CHAR or VARCHAR, whose bind_create took at least 4 bytes a character.
function methods:put(param, characters)
  check(characters)
  param.data_len[0] = C.bakeoff_texts_draw(self, characters, param.buffer, param.max_len)
  param.is_null[0] = 0
end

ffi.metatype("bakeoff_texts", { __index = methods, __tostring = function() return "<texts>" end })

-- `content`: digits, ascii, text, latin, cyrillic, japanese, chinese, emoji, prefix, uuid or hash. `compressibility`
-- (0 to 1, or nil): the share of ASCII text that zlib saves. Raises if the character set cannot hold the content.
function bakeoff.text(con, content, compressibility)
  if con == nil then
    error("bakeoff.text: no connection; give it one first "
      .. "(get_c_value and get_pad_value of oltp_common use the global con)", 2)
  end
  local why = ffi.new("char[?]", WHY_BYTES)
  local texts = C.bakeoff_texts_new(con, content, #content, compressibility or -1, why, WHY_BYTES)
  if texts == nil then
    error(ffi.string(why), 2)
  end
  return ffi.gc(texts, C.bakeoff_texts_free)
end

-- Sends print and io.write through the engine, because standard output may carry its messages.

local runtime = ...
local C = ffi.C

-- Pieces of the unfinished line.
local pending = {}

local function end_line()
  local line = table.concat(pending)
  pending = {}
  C.bakeoff_log(line, #line)
end

-- Sends whole lines and keeps the rest for the next write.
local function write(...)
  for i = 1, select("#", ...) do
    local piece = select(i, ...)
    if type(piece) ~= "string" and type(piece) ~= "number" then
      error(string.format("bad argument #%d to 'write' (string expected, got %s)", i, type(piece)), 3)
    end
    piece = tostring(piece)
    local from = 1
    local newline = piece:find("\n", from, true)
    while newline do
      pending[#pending + 1] = piece:sub(from, newline - 1)
      end_line()
      from = newline + 1
      newline = piece:find("\n", from, true)
    end
    if from <= #piece then
      pending[#pending + 1] = piece:sub(from)
    end
  end
end

function runtime.flush_output()
  if pending[1] then
    end_line()
  end
end

function print(...)
  local words = { ... }
  for i = 1, select("#", ...) do
    words[i] = tostring(words[i])
  end
  write(table.concat(words, "\t"), "\n")
end

local stdout = {}
stdout.__index = stdout

function stdout:write(...)
  write(...)
  return self
end

function stdout:flush()
  runtime.flush_output()
  return true
end

function stdout:setvbuf()
  return true
end

function stdout:seek()
  return nil, "Illegal seek", 29
end

function stdout:close()
  return self:flush()
end

function stdout:__tostring()
  return "file (standard output of bakeoff)"
end

io.stdout = setmetatable({}, stdout)

local current_output = io.stdout
local real_output = io.output

function io.write(...)
  if current_output == io.stdout then
    write(...)
    return current_output
  end
  return current_output:write(...)
end

function io.flush()
  return current_output:flush()
end

-- Returns the current output. A name or file becomes the current one first.
function io.output(target)
  if target == io.stdout then
    current_output = target
  elseif target ~= nil then
    current_output = real_output(target)
  end
  return current_output
end

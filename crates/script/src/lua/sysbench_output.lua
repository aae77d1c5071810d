-- print and io.write by way of the engine: standard output may carry its messages.

local runtime = ...
local C = ffi.C

local pending = ""

local function log_line(line)
  C.bakeoff_log(line, #line)
end

-- Sends whole lines and keeps the rest for the next write.
local function write(...)
  for i = 1, select("#", ...) do
    local piece = select(i, ...)
    if type(piece) ~= "string" and type(piece) ~= "number" then
      error(string.format("bad argument #%d to 'write' (string expected, got %s)", i, type(piece)), 3)
    end
    pending = pending .. piece
  end
  local from = 1
  while true do
    local newline = pending:find("\n", from, true)
    if not newline then
      break
    end
    log_line(pending:sub(from, newline - 1))
    from = newline + 1
  end
  pending = pending:sub(from)
end

function runtime.flush_output()
  if pending ~= "" then
    log_line(pending)
    pending = ""
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

-- Without an argument: the present output; with a name or a file: that one from now on.
function io.output(target)
  if target == io.stdout then
    current_output = target
  elseif target ~= nil then
    current_output = real_output(target)
  end
  return current_output
end

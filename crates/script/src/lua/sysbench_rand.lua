-- sysbench.rand: numbers and texts from the thread's own random stream.

local C = ffi.C

local rand = {}
sysbench.rand = rand

function rand.default(a, b)
  return C.sb_rand_default(a, b)
end

function rand.uniform(a, b)
  return C.sb_rand_uniform(a, b)
end

function rand.gaussian(a, b)
  return C.sb_rand_gaussian(a, b)
end

function rand.special(a, b)
  return C.sb_rand_special(a, b)
end

function rand.pareto(a, b)
  return C.sb_rand_pareto(a, b)
end

function rand.zipfian(a, b)
  return C.sb_rand_zipfian(a, b)
end

function rand.unique()
  return C.sb_rand_unique()
end

function rand.uniform_uint64()
  return C.sb_rand_uniform_uint64()
end

function rand.uniform_double()
  return C.sb_rand_uniform_double()
end

local buffer, room = ffi.new("char[?]", 1024), 1024

local function buffer_of(length)
  if length > room then
    buffer, room = ffi.new("char[?]", length), length
  end
  return buffer
end

-- '#' becomes a digit, '@' a letter a to z.
function rand.string(format)
  local out = buffer_of(#format)
  C.bakeoff_rand_str(format, out, #format)
  return ffi.string(out, #format)
end

-- min_len to max_len characters '0' to 'z'.
function rand.varstring(min_len, max_len)
  if min_len < 0 or min_len > max_len then
    error("rand.varstring: the shortest length must be 0 to the longest", 2)
  end
  local out = buffer_of(max_len)
  return ffi.string(out, C.sb_rand_varstr(out, min_len, max_len))
end

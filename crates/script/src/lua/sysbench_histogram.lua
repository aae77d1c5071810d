-- sysbench.histogram: a histogram that a script fills and prints.

local C = ffi.C

sysbench.histogram = {}

local methods = {}

function methods:update(value)
  C.sb_histogram_update(self, value)
end

function methods:print()
  C.sb_histogram_print(self)
end

ffi.metatype("sb_histogram_t", {
  __index = methods,
  __tostring = function() return "<sb_histogram>" end,
})

-- `size` buckets, equally wide on a logarithmic axis from range_min (above 0) to range_max.
function sysbench.histogram.new(size, range_min, range_max)
  local histogram = C.sb_histogram_new(size, range_min, range_max)
  if histogram == nil then
    error("histogram.new: it takes a size above 1 and 0 < range_min < range_max", 2)
  end
  return ffi.gc(histogram, C.sb_histogram_delete)
end

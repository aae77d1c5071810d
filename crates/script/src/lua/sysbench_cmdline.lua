-- sysbench.cmdline: options and commands that the script declares.

local runtime = ...

local cmdline = {
  ARG_NULL = 0, ARG_BOOL = 1, ARG_INT = 2, ARG_SIZE = 3, ARG_DOUBLE = 4, ARG_STRING = 5, ARG_LIST = 6, ARG_FILE = 7, ARG_MAX = 8,
  PARALLEL_COMMAND = true,
  argv = runtime.argv,
  command = runtime.command_name,
  script_path = runtime.script_path,
}
sysbench.cmdline = cmdline

local type_of_default = {
  boolean = cmdline.ARG_BOOL, string = cmdline.ARG_STRING, number = cmdline.ARG_DOUBLE, table = cmdline.ARG_LIST,
  ["nil"] = cmdline.ARG_STRING,
}

local function underscored(name)
  return (tostring(name):gsub("-", "_"))
end

local function sorted_keys(map)
  local keys = {}
  for key in pairs(map or {}) do
    keys[#keys + 1] = tostring(key)
  end
  table.sort(keys)
  return keys
end

-- Options ------------------------------------------------------------------------------------------------------------
-- A declaration is { description [, default [, type [, check]]] }. check(name, text, value) returns false to refuse.

function runtime.declares_options()
  return type(cmdline.options) == "table" and next(cmdline.options) ~= nil
end

-- Returns the list, or nil and what is wrong with the script's table.
function runtime.declared_options()
  local list, wrong = {}, "wrong table structure in sysbench.cmdline.options"
  if cmdline.options ~= nil and type(cmdline.options) ~= "table" then
    return nil, "wrong type for sysbench.cmdline.options: " .. type(cmdline.options)
  end
  for _, name in ipairs(sorted_keys(cmdline.options)) do
    local decl = cmdline.options[name]
    if type(decl) ~= "table" then
      return nil, wrong
    end
    if decl[1] == nil then
      return nil, "nil description for option " .. name
    end
    local kind = decl[3] or type_of_default[type(decl[2])]
    if type(decl[1]) == "table" or not kind then
      return nil, string.format("cannot convert '%s' to 'const char *'", type(kind and decl[1] or decl[2]))
    end
    if type(decl[2]) == "table" then
      local ok, message = pcall(table.concat, decl[2])
      if not ok then
        return nil, message
      end
    end
    list[#list + 1] = {
      name = underscored(name), written = name, description = tostring(decl[1]), default = decl[2], kind = kind,
    }
  end
  return list
end

function runtime.validate(name, text, value)
  for declared, decl in pairs(cmdline.options) do
    if underscored(declared) == name and type(decl[4]) == "function" then
      return decl[4](name, text, value) and true or false
    end
  end
  return true
end

-- Resets sysbench.opt to the values that the script was started with.
function runtime.set_options()
  for name, value in pairs(runtime.option_values or {}) do
    sysbench.opt[name] = value
  end
end

cmdline.read_cmdline_options = runtime.set_options

function cmdline.print_test_options()
  ffi.C.sb_print_test_options()
end

-- Commands -----------------------------------------------------------------------------------------------------------
-- A declaration is { function [, sysbench.cmdline.PARALLEL_COMMAND] }.

local built_in = { cleanup = true, help = true, prepare = true }

local function declaration(name)
  local decl = type(cmdline.commands) == "table" and cmdline.commands[name] or nil
  if type(decl) == "function" then
    return { decl }
  end
  return type(decl) == "table" and type(decl[1]) == "function" and decl or nil
end

function cmdline.command_defined(name)
  return declaration(name) ~= nil
end

function cmdline.command_parallel(name)
  local decl = declaration(name)
  return decl ~= nil and decl[2] == cmdline.PARALLEL_COMMAND
end

function cmdline.call_command(name)
  local decl = declaration(name)
  if not decl then
    return false
  end
  decl[1]()
  return true
end

-- The function behind a command, or nil.
function runtime.command(name)
  local decl = declaration(name)
  if decl then
    return decl[1]
  end
  if built_in[name] and type(_G[name]) == "function" then
    return _G[name]
  end
  if name == "help" and runtime.declares_options() then
    return function()
      print(string.format("%s options:", cmdline.script_path:match("[^/]*$")))
      cmdline.print_test_options()
    end
  end
end

function runtime.commands()
  local list = {}
  for _, name in ipairs(sorted_keys(cmdline.commands)) do
    if declaration(name) then
      list[#list + 1] = { name = name, parallel = cmdline.command_parallel(name) }
    end
  end
  for _, name in ipairs(sorted_keys(built_in)) do
    if not declaration(name) and runtime.command(name) then
      list[#list + 1] = { name = name, parallel = false }
    end
  end
  return list
end

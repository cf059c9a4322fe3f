-- Files, as Lua has them: an index of words over some texts, with seeks, appends, renames and temporary files. It prints the same
-- on any file system.
local function check(what, ...)
  local first, message, number = ...
  print(what, first and "works" or (message or ""):gsub("^.*: ", "") .. " " .. tostring(number))
  return ...
end

local random = 1
local function next_random(most)
  random = (random * 48271) % 2147483647
  return random % most + 1
end

-- Texts, and where each word is in them.
local index = {}
for number = 1, 40 do
  local file <close> = assert(io.open("text" .. number, "wb"))
  for _ = 1, 500 do
    local word = "w" .. next_random(300)
    index[word] = index[word] or {}
    table.insert(index[word], { number, file:seek() })
    file:write(word, "\n")
  end
end

-- Each place has its word.
local right, wrong = 0, 0
for number = 1, 40 do
  local file <close> = assert(io.open("text" .. number, "rb"))
  for word, places in pairs(index) do
    for _, place in ipairs(places) do
      if place[1] == number then
        file:seek("set", place[2])
        if file:read("l") == word then right = right + 1 else wrong = wrong + 1 end
      end
    end
  end
end
print("words", right, wrong)

-- Lines, appended and changed amid the file.
local log = assert(io.open("log", "a+"))
log:setvbuf("full", 100)
for line = 1, 1000 do log:write(line, " ", line * line, "\n") end
log:flush()
log:seek("set", 0)
print("first", log:read("n", "n", "l", "L"))
print("size", log:seek("end"))
log:close()
local amid = assert(io.open("log", "r+"))
amid:seek("set", 4)
amid:write("XX")
amid:seek("cur", 0)
print("amid", amid:read(6))
amid:close()
local count, sum = 0, 0
for line in io.lines("log") do
  count = count + 1
  sum = sum + #line
end
print("lines", count, sum)

check("rename", os.rename("log", "log.old"))
check("rename none", os.rename("log", "log.new"))
check("open none", io.open("none/x", "w"))
check("open a directory to write", io.open(".", "w"))
check("remove", os.remove("log.old"))
check("remove again", os.remove("log.old"))
local temporary = io.tmpfile()
temporary:write("temporary")
temporary:seek("set")
print("temporary", temporary:read("a"))
temporary:close()
local name = os.tmpname()
check("tmpname", os.remove(name))
local pipe = io.popen("cat text1 text2 | sort | uniq | wc -l")
print("popen", tonumber(pipe:read("a")))
print("close", pipe:close())
print("execute", os.execute("rm text*; ls | grep -c text"))

-- A module of the directory, and a chunk.
local module = assert(io.open("module.lua", "w"))
module:write("return { value = 42 }")
module:close()
package.path = "./?.lua"
print("require", require("module").value, dofile("module.lua").value, loadfile("none.lua"))
os.remove("module.lua")

-- What scripts do: tables, strings, patterns, closures, coroutines, sorting, arithmetic.
-- work.lua ROUNDS SEED
local rounds, seed = tonumber(arg[1]), tonumber(arg[2])

local function random(limit)
  seed = (seed * 16807) % 2147483647
  return seed % limit + 1
end

local function queens(n)
  local found, cols, up, down = 0, {}, {}, {}
  local function place(row)
    if row > n then found = found + 1 return end
    for c = 1, n do
      if not (cols[c] or up[row + c] or down[row - c + n]) then
        cols[c], up[row + c], down[row - c + n] = true, true, true
        place(row + 1)
        cols[c], up[row + c], down[row - c + n] = nil, nil, nil
      end
    end
  end
  place(1)
  return found
end

local syllables = {"ka", "lo", "mi", "ren", "tu", "sha", "ve", "on", "il", "dar"}

local function words(count)
  local made = {}
  for i = 1, count do
    local parts = {}
    for j = 1, random(3) do parts[j] = syllables[random(#syllables)] end
    made[i] = table.concat(parts)
  end
  return made
end

local function count_words(text)
  local counts, order = {}, {}
  for word in text:gmatch("%a+") do
    if not counts[word] then counts[word] = 0; order[#order + 1] = word end
    counts[word] = counts[word] + 1
  end
  table.sort(order, function(a, b)
    if counts[a] ~= counts[b] then return counts[a] > counts[b] end
    return a < b
  end)
  return order, counts
end

-- A tokenizer and evaluator of arithmetic, by recursive descent.
local function calculate(text)
  local at = 1
  local expression
  local function skip() at = text:find("%S", at) or #text + 1 end
  local function factor()
    skip()
    if text:sub(at, at) == "(" then
      at = at + 1
      local value = expression()
      skip()
      at = at + 1
      return value
    end
    local digits = text:match("^%d+", at)
    at = at + #digits
    return tonumber(digits)
  end
  local function term()
    local value = factor()
    while true do
      skip()
      local operator = text:sub(at, at)
      if operator ~= "*" and operator ~= "%" then return value end
      at = at + 1
      local right = factor()
      if operator == "*" then value = value * right % 1000003
      else value = value % (right + 1) end
    end
  end
  function expression()
    local value = term()
    while true do
      skip()
      local operator = text:sub(at, at)
      if operator ~= "+" and operator ~= "-" then return value end
      at = at + 1
      if operator == "+" then value = value + term() else value = value - term() end
    end
  end
  return expression()
end

local function formula(depth)
  if depth == 0 then return tostring(random(999)) end
  local operators = {"+", "-", "*", "%"}
  local left, right = formula(depth - 1), formula(random(depth) - 1)
  return "(" .. left .. " " .. operators[random(4)] .. " " .. right .. ")"
end

local Account = {}
Account.__index = Account
function Account.new(owner) return setmetatable({owner = owner, balance = 0, log = {}}, Account) end
function Account:move(amount)
  if self.balance + amount < 0 then return false end
  self.balance = self.balance + amount
  self.log[#self.log + 1] = amount
  return true
end

local function bank(steps)
  local accounts, refused = {}, 0
  for i = 1, 20 do accounts[i] = Account.new("owner" .. i) end
  for _ = 1, steps do
    if not accounts[random(20)]:move(random(200) - 90) then refused = refused + 1 end
  end
  local total = 0
  for _, account in ipairs(accounts) do total = total + account.balance end
  return total, refused
end

local function producer(count)
  return coroutine.wrap(function()
    for i = 1, count do coroutine.yield(i * random(10)) end
  end)
end

for round = 1, rounds do
  local made = words(900)
  local text = table.concat(made, " ")
  local order, counts = count_words(text)
  print(round, #text, #order, order[1], counts[order[1]])
  print((text:gsub("[aeiou]+", string.upper)):sub(1, 40), select(2, text:gsub("(%a)%1", "%1")))
  local sum = 0
  for _ = 1, 6 do sum = sum + calculate(formula(6)) end
  print("formulas", sum, "queens", queens(6))
  print("bank", bank(1500))
  local next_number, total = producer(400), 0
  for _ = 1, 400 do total = total + next_number() end
  print("coroutine", total, string.format("%.6f %5d %s", total / 7, total % 99, #text))
end

-- Arithmetic of the transactions: money in whole cents, stock levels, brands.
local money = {}

--- "12.34" for 1234.
function money.text(cents)
   return string.format("%d.%02d", math.floor(cents / 100), cents % 100)
end

--- 1234 for "12.34", -1000 for "-10.00"; a number without a point counts whole units.
function money.cents(text)
   return math.floor(tonumber(text) * 100 + 0.5)
end

--- S_QUANTITY after an order of `quantity` (2.4.2.2): refilled by 91 where less than ten would be left.
function money.stock_after(stock, quantity)
   return stock - quantity >= 10 and stock - quantity or stock - quantity + 91
end

--- B (brand) when both I_DATA and S_DATA hold ORIGINAL, else G (generic).
function money.brand(i_data, s_data)
   return i_data:find("ORIGINAL", 1, true) and s_data:find("ORIGINAL", 1, true) and "B" or "G"
end

return money

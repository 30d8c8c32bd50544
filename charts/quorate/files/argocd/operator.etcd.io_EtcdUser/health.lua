-- The health of an EtcdUser: healthy when the user is as its spec asks for.
local function condition(type)
  for _, one in ipairs((obj.status or {}).conditions or {}) do
    if one.type == type then
      return one
    end
  end
  return {}
end

local ready, stalled = condition("Ready"), condition("Stalled")
if stalled.status == "True" then
  return { status = "Degraded", message = stalled.message }
end
if obj.metadata.deletionTimestamp ~= nil then
  return { status = "Progressing", message = "it is being deleted" }
end
if ready.status == "True" then
  return { status = "Healthy", message = ready.message }
end
return { status = "Progressing", message = ready.message or "no operator has looked at it yet" }

-- The health of an EtcdCluster. Argo CD gives scripts no library for strings.
local function condition(type)
  for _, one in ipairs((obj.status or {}).conditions or {}) do
    if one.type == type then
      return one
    end
  end
  return {}
end

if obj.metadata.deletionTimestamp ~= nil then
  return { status = "Progressing", message = condition("Ready").message or "it is being deleted" }
end
if obj.status == nil or obj.status.observedGeneration ~= obj.metadata.generation then
  return { status = "Progressing", message = "the operator has not looked at this spec yet" }
end
local ready, stalled = condition("Ready"), condition("Stalled")
if stalled.status == "True" then
  return { status = "Degraded", message = stalled.message }
end
-- Clients are not served, and no change that was asked for explains it.
local outages = { QuorumLost = true, AlarmActive = true, NoEndpoint = true, AuthEnabled = true }
if outages[ready.reason] then
  return { status = "Degraded", message = ready.message }
end
if ready.reason == "Paused" or ready.reason == "Hibernated" then
  return { status = "Suspended", message = ready.message }
end
if ready.status == "True" then
  return { status = "Healthy", message = ready.message }
end
return { status = "Progressing", message = ready.message }

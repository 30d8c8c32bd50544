-- The health of an EtcdBackupSchedule: degraded when its backups do not come about.
local function condition(type)
  for _, one in ipairs((obj.status or {}).conditions or {}) do
    if one.type == type then
      return one
    end
  end
  return {}
end

if obj.metadata.deletionTimestamp ~= nil then
  return { status = "Progressing", message = "it is being deleted" }
end
if obj.status == nil or obj.status.observedGeneration ~= obj.metadata.generation then
  return { status = "Progressing", message = "the operator has not looked at this spec yet" }
end
local ready = condition("Ready")
if ready.status == "False" then
  return { status = "Degraded", message = ready.message }
end
if ready.reason == "Suspended" then
  return { status = "Suspended", message = ready.message }
end
if ready.status == "True" then
  return { status = "Healthy", message = ready.message }
end
return { status = "Progressing", message = ready.message }

-- The actions on an EtcdBackupSchedule. A suspended one takes no backup.
return {
  ["suspend"] = { disabled = obj.spec.suspend == true },
  ["resume"] = { disabled = obj.spec.suspend ~= true },
  ["back-up-now"] = { disabled = obj.spec.suspend == true },
}

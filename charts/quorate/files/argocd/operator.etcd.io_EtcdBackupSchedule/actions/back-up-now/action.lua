-- Each word orders one backup, once.
local os = require("os")
if obj.metadata.annotations == nil then
  obj.metadata.annotations = {}
end
obj.metadata.annotations["operator.etcd.io/backup-now"] = os.date("!argocd-%Y%m%d-%H%M%S")
return obj

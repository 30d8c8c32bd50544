// CoreDNS with the plugins that a cluster on one machine needs, and no others.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"

	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/template"
)

func main() {
	// A query goes through the plugins in this order: what the cluster does not know has no other answer.
	dnsserver.Directives = []string{"bind", "errors", "health", "ready", "kubernetes", "template"}
	coremain.Run()
}

// Runs controllers of cert-manager against the API server of a kubeconfig: those that issue and renew certificates of the kinds SelfSigned
// and CA. They are the controllers of its releases, whose own program is no package that another module can build. There is no webhook,
// so objects have to be complete and correct, and no election of a leader: several run beside each other if each has a namespace of its
// own. It ends at SIGTERM.
//
//	cert-manager --kubeconfig FILE [--namespace NAMESPACE] [--cluster-resource-namespace NAMESPACE]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/klog/v2"

	"github.com/cert-manager/cert-manager/pkg/controller"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/ca"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/selfsigned"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/readiness"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/requestmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/revisionmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"
	"github.com/cert-manager/cert-manager/pkg/controller/clusterissuers"
	_ "github.com/cert-manager/cert-manager/pkg/controller/issuers"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/ca"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/selfsigned"
)

// How many objects a controller works on at once, as by default in cert-manager.
const workers = 5

func run(ctx context.Context, options controller.ContextOptions) error {
	factory, err := controller.NewContextFactory(ctx, options)
	if err != nil {
		return err
	}
	// For the informers: all contexts of a factory share them.
	shared, err := factory.Build()
	if err != nil {
		return err
	}
	controllers := map[string]controller.Interface{}
	for name, construct := range controller.Known() {
		// Those of one namespace have no part in what belongs to none.
		if name == clusterissuers.ControllerName && options.Namespace != "" {
			continue
		}
		if controllers[name], err = construct(factory); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	// After the controllers, which ask for informers while they are made.
	shared.SharedInformerFactory.Start(ctx.Done())
	shared.KubeSharedInformerFactory.Start(ctx.Done())
	shared.HTTP01ResourceMetadataInformersFactory.Start(ctx.Done())
	for name, one := range controllers {
		group.Go(func() error {
			if err := one.Run(workers, ctx); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

func main() {
	options := controller.ContextOptions{
		// As by default in cert-manager.
		CertificateOptions: controller.CertificateOptions{
			CopiedAnnotationPrefixes:                 []string{"*", "-kubectl.kubernetes.io/", "-fluxcd.io/", "-argocd.argoproj.io/"},
			CertificateRequestMinimumBackoffDuration: time.Hour,
			CertificateRequestMaximumBackoffDuration: 32 * time.Hour,
		},
	}
	flag.StringVar(&options.Kubeconfig, "kubeconfig", "", "the kubeconfig of the API server")
	flag.StringVar(&options.Namespace, "namespace", "", "the only namespace to work in, without ClusterIssuers")
	flag.StringVar(&options.ClusterResourceNamespace, "cluster-resource-namespace", "kube-system", "where a ClusterIssuer has its Secrets")
	flag.Parse()
	if options.Kubeconfig == "" || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	err := run(klog.NewContext(ctx, klog.Background()), options)
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

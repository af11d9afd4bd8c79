// Program works-cache holds all ManifestWorks of a server the way upstream's controllers do: a typed shared informer of
// OCM's generated clients on client-go, with its default settings. It prints two JSON lines: its memory when only the
// clients exist, and when the cache holds everything that was asked for and the process was left alone for a while.
// `least` is what remains when all garbage is collected and returned to the kernel, which no controller does.
//
//	works-cache -kubeconfig F -count N [-settle 5s]
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	workclient "open-cluster-management.io/api/client/work/clientset/versioned"
	workinformers "open-cluster-management.io/api/client/work/informers/externalversions"
)

type sample struct {
	Objects  int `json:"objects"`
	Resident int `json:"resident_kib"`
	Least    int `json:"least_kib"`
}

// resident reads what the kernel counts, as for any other process.
func resident() int {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		fail(err)
	}
	for _, line := range strings.Split(string(status), "\n") {
		var kib int
		if _, err := fmt.Sscanf(line, "VmRSS: %d kB", &kib); err == nil {
			return kib
		}
	}
	return 0
}

func report(objects int) {
	found := sample{Objects: objects, Resident: resident()}
	debug.FreeOSMemory()
	found.Least = resident()
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(2)
}

func main() {
	kubeconfig := flag.String("kubeconfig", "", "path of the kubeconfig")
	count := flag.Int("count", 0, "how many objects the cache must hold")
	settle := flag.Duration("settle", 5*time.Second, "how long the process is left alone before its memory is read")
	timeout := flag.Duration("timeout", 2*time.Minute, "how long the cache may take")
	flag.Parse()
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		fail(err)
	}
	client, err := workclient.NewForConfig(config)
	if err != nil {
		fail(err)
	}
	informer := workinformers.NewSharedInformerFactory(client, 0).Work().V1().ManifestWorks().Informer()
	report(0)
	ctx, stop := context.WithTimeout(context.Background(), *timeout)
	defer stop()
	go informer.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		fail(fmt.Errorf("the cache did not fill within %s", *timeout))
	}
	time.Sleep(*settle)
	if found := len(informer.GetStore().ListKeys()); found < *count {
		fail(fmt.Errorf("the cache holds %d ManifestWorks, not %d", found, *count))
	}
	report(len(informer.GetStore().ListKeys()))
}

// Program informer is a judge of API servers that speaks through client-go with its default settings: protobuf bodies
// for built-in kinds and streamed lists.
//
//	informer watch -kubeconfig F [-namespace N] [-client typed|dynamic|metadata]
//	    prints every change of ConfigMaps as one JSON line until its standard input ends
//	informer check -kubeconfig F
//	    runs the checks of checks.go and prints one JSON line each; ends with 1 when one fails
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"sync"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

var (
	output  = json.NewEncoder(os.Stdout)
	writing sync.Mutex
)

// say prints one line; handlers of several informers call it at the same time.
func say(line any) {
	writing.Lock()
	defer writing.Unlock()
	if err := output.Encode(line); err != nil {
		os.Exit(1)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(2)
}

func main() {
	if len(os.Args) < 2 {
		fail(fmt.Errorf("usage: informer watch|check -kubeconfig FILE"))
	}
	flags := flag.NewFlagSet(os.Args[1], flag.ExitOnError)
	kubeconfig := flags.String("kubeconfig", "", "path of the kubeconfig")
	namespace := flags.String("namespace", "", "namespace to watch; all when empty")
	client := flags.String("client", "typed", "typed, dynamic or metadata")
	if err := flags.Parse(os.Args[2:]); err != nil {
		fail(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		fail(err)
	}
	config.QPS, config.Burst = 200, 400
	switch os.Args[1] {
	case "watch":
		err = watchConfigMaps(config, *namespace, *client)
	case "check":
		err = runChecks(rest.CopyConfig(config))
	default:
		err = fmt.Errorf("unknown command %q", os.Args[1])
	}
	if err != nil {
		fail(err)
	}
}

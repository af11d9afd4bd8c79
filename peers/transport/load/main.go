// Program transport-load puts agents' load on a gRPC/CloudEvents server over mTLS, and measures it. It speaks as agents of OCM
// do, with the messages of sdk-go, and knows nothing of whose server it is.
//
//	transport-load publish --kind lease|work …   Publish loops of many agents
//	transport-load deliver …                     counts what many streams are sent
//	transport-load latency …                     a hub's write until its agent has it, with or without silent readers
//	transport-load resync  …                     a resync of works that are all known
//	transport-load agents  …                     agents of five streams that come back when their server does
//	transport-load direct  …                     works' status written to the hub's API server, with no server of events between
//
// Each prints JSON lines on standard output, the last of which is the result. Client certificates are made here from the
// clients' CA, one per cluster.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"sort"
	"sync"
	"syscall"
	"time"
)

type mode struct {
	flags func(*flag.FlagSet, *options)
	run   func(context.Context, *options) (any, error)
}

var modes = map[string]mode{
	"publish": {publishFlags, publish},
	"deliver": {deliverFlags, deliver},
	"latency": {latencyFlags, latency},
	"resync":  {resyncFlags, resync},
	"agents":  {agentsFlags, agents},
	"direct":  {directFlags, direct},
}

// options are the flags of all modes; each mode declares those it reads.
type options struct {
	server, ca, clientCA, clientKey, prefix string
	clusters, first                         int
	seconds, warm, timeout                  time.Duration

	kind                       string
	streams, count             int
	kube, kubeCA, token        string
	rate                       float64
	silent, fill, size, rounds int
}

func main() {
	if len(os.Args) < 2 || modes[os.Args[1]].run == nil {
		fmt.Fprintln(os.Stderr, "usage: transport-load publish|deliver|latency|resync|agents|direct [flags]")
		os.Exit(2)
	}
	chosen := modes[os.Args[1]]
	o := &options{}
	flags := flag.NewFlagSet(os.Args[1], flag.ExitOnError)
	flags.StringVar(&o.server, "server", "", "host:port of the server")
	flags.StringVar(&o.ca, "ca", "", "file of the CA that the server's certificate is from")
	flags.StringVar(&o.clientCA, "client-ca", "", "file of the CA that clients' certificates are made from")
	flags.StringVar(&o.clientKey, "client-ca-key", "", "file of that CA's key")
	flags.StringVar(&o.prefix, "prefix", "cluster", "clusters are called by this and a number of five digits")
	flags.IntVar(&o.clusters, "clusters", 1, "how many clusters have an agent")
	flags.IntVar(&o.first, "first", 0, "the first cluster's number")
	flags.DurationVar(&o.timeout, "timeout", 5*time.Minute, "when to give up")
	chosen.flags(flags, o)
	_ = flags.Parse(os.Args[2:])
	ctx, cancel := context.WithTimeout(context.Background(), o.timeout)
	defer cancel()
	found, err := chosen.run(ctx, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	say(found)
}

func (o *options) cluster(number int) string {
	return fmt.Sprintf("%s%05d", o.prefix, o.first+number)
}

var saying sync.Mutex

// say writes one JSON line.
func say(what any) {
	saying.Lock()
	defer saying.Unlock()
	_ = json.NewEncoder(os.Stdout).Encode(what)
}

// commands are the lines of standard input; closed when it ends.
func commands() <-chan string {
	lines := make(chan string)
	go func() {
		defer close(lines)
		scanner := bufio.NewScanner(os.Stdin)
		for scanner.Scan() {
			lines <- scanner.Text()
		}
	}()
	return lines
}

// each runs something for every cluster at once, at most `limit` at a time, and gives the first error.
func each(count, limit int, do func(int) error) error {
	turns := make(chan struct{}, limit)
	failed := make(chan error, count)
	var all sync.WaitGroup
	for number := range count {
		all.Add(1)
		turns <- struct{}{}
		go func() {
			defer all.Done()
			defer func() { <-turns }()
			if err := do(number); err != nil {
				failed <- err
			}
		}()
	}
	all.Wait()
	close(failed)
	return <-failed
}

// quantiles are in milliseconds.
type quantiles struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

func quantilesOf(samples []time.Duration) quantiles {
	if len(samples) == 0 {
		return quantiles{}
	}
	sort.Slice(samples, func(i, j int) bool { return samples[i] < samples[j] })
	at := func(q float64) float64 { return samples[int(q*float64(len(samples)-1))].Seconds() * 1000 }
	return quantiles{at(0.5), at(0.99), at(1)}
}

// ownCPU is what this process has spent, in seconds: a load that is busy itself measures itself.
func ownCPU() float64 {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
}

// Loadgen puts load on a Kubernetes API server and prints what it measured as one JSON line.
//
//	loadgen load  --verb create --clients 16 --seconds 1 …   requests per second and latencies of one verb
//	loadgen list  --query … --repeat 5 …                     latency and size of whole lists
//	loadgen watch --watchers 100 --writes 200 …              from a write's start to each watcher's event
//
// It speaks HTTP/1.1 over kept TLS connections with requests written as prepared bytes, so that on a machine of two
// cores the server, and not this program, is what is measured. The Python side (bench/) decides what to run and when.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"sort"
	"time"
)

// Options are the flags that all commands share.
type Options struct {
	URL, CA, Token, Namespace string
	ServerName                string
	Verb, Prefix              string
	Clients                   int
	First, Count, Pool        int
	Seconds                   float64
	Path, Query, Accept       string
	Repeat                    int
	Watchers, Writes          int
	Rate                      float64
}

func main() {
	if len(os.Args) < 2 {
		fail(fmt.Errorf("usage: loadgen load|list|watch --flags"))
	}
	options := Options{}
	flags := flag.NewFlagSet(os.Args[1], flag.ExitOnError)
	flags.StringVar(&options.URL, "url", "", "base URL of the API server")
	flags.StringVar(&options.CA, "ca", "", "file with the CA certificate")
	flags.StringVar(&options.Token, "token", "", "bearer token")
	flags.StringVar(&options.ServerName, "server-name", "", "whom the server's certificate is for, if not the URL's host")
	flags.StringVar(&options.Namespace, "namespace", "bench", "namespace of the ConfigMaps")
	flags.StringVar(&options.Verb, "verb", "", "create|get|update|patch|apply|delete")
	flags.StringVar(&options.Prefix, "prefix", "load", "name prefix of the ConfigMaps")
	flags.IntVar(&options.Clients, "clients", 1, "connections, each with one request at a time")
	flags.IntVar(&options.First, "first", 0, "the number of the first object")
	flags.IntVar(&options.Count, "count", 0, "stop after so many requests (0: only by time)")
	flags.IntVar(&options.Pool, "pool", 0, "how many objects the verb goes round over (0: each request a new name)")
	flags.Float64Var(&options.Seconds, "seconds", 1, "stop after so long")
	flags.StringVar(&options.Path, "path", "", "what a list reads, if not the namespace's ConfigMaps")
	flags.StringVar(&options.Query, "query", "", "query of a list")
	flags.StringVar(&options.Accept, "accept", "application/json", "Accept header of a list")
	flags.IntVar(&options.Repeat, "repeat", 5, "how many lists")
	flags.IntVar(&options.Watchers, "watchers", 100, "watch connections")
	flags.IntVar(&options.Writes, "writes", 100, "objects created while they watch")
	flags.Float64Var(&options.Rate, "rate", 0, "writes per second (0: as fast as four writers can)")
	_ = flags.Parse(os.Args[2:])

	commands := map[string]func(*Server, Options) (any, error){"load": load, "list": list, "watch": watch}
	command, known := commands[os.Args[1]]
	if !known {
		fail(fmt.Errorf("unknown command %q", os.Args[1]))
	}
	server, err := newServer(options)
	if err != nil {
		fail(err)
	}
	result, err := command(server, options)
	if err != nil {
		fail(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(result); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "loadgen:", err)
	os.Exit(1)
}

// percentile of durations in milliseconds; the slice gets sorted.
func percentile(durations []time.Duration, share float64) float64 {
	if len(durations) == 0 {
		return 0
	}
	sort.Slice(durations, func(i, j int) bool { return durations[i] < durations[j] })
	index := int(share * float64(len(durations)-1))
	return float64(durations[index]) / 1e6
}

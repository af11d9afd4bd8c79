// Program resolver-oracle answers what go-template-utils and yaml.v3 make of templates and documents. It reads lines of JSON and
// answers each with one:
//
//	{"load": text}                     the document as JSON, as a resolved template is read
//	{"convert": text}                  the JSON text as YAML, as a policy is before it is resolved
//	{"objects": [...], "kinds": [...]} what the cluster has from here on
//	{"resolve": {...}}                 a template resolved against that cluster, see resolution
//	{"time": {"resolve": …}, "seconds": n}  how often it was resolved in that time, and with how much processor time
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/stolostron/go-template-utils/v7/pkg/templates"
	"gopkg.in/yaml.v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/klog"
)

type question struct {
	Load    *string                     `json:"load"`
	Convert *string                     `json:"convert"`
	Objects []unstructured.Unstructured `json:"objects"`
	Kinds   []kind                      `json:"kinds"`
	Resolve *resolution                 `json:"resolve"`
	Time    *resolution                 `json:"time"`
	Seconds float64                     `json:"seconds"`
}

type answer struct {
	Result    *string `json:"result,omitempty"`
	Error     string  `json:"error,omitempty"`
	Panic     string  `json:"panic,omitempty"`
	Sensitive bool    `json:"sensitive,omitempty"`
	Rounds    int     `json:"rounds,omitempty"`
	CPU       float64 `json:"cpu,omitempty"`
}

func given(result []byte, err error) answer {
	if err != nil {
		return answer{Error: err.Error()}
	}
	text := string(result)
	return answer{Result: &text}
}

func load(text string) answer {
	var value any
	if err := yaml.Unmarshal([]byte(text), &value); err != nil {
		return answer{Error: err.Error()}
	}
	return given(json.Marshal(value))
}

func measure(cluster *world, asked *resolution, seconds float64) answer {
	prepared, err := cluster.prepare(asked)
	if err != nil {
		return answer{Error: err.Error()}
	}
	if _, err := prepared(); err != nil {
		return answer{Error: err.Error()}
	}
	rounds, start, used := 0, time.Now(), processorTime()
	for time.Since(start).Seconds() < seconds {
		if _, err := prepared(); err != nil {
			return answer{Error: err.Error()}
		}
		rounds++
	}
	return answer{Rounds: rounds, CPU: processorTime() - used}
}

// processorTime is what this process has used of all processors, in seconds.
func processorTime() float64 {
	var used syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &used) != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano()).Seconds()
}

func reply(cluster **world, line []byte) (result answer) {
	defer func() {
		if trouble := recover(); trouble != nil {
			result = answer{Panic: fmt.Sprint(trouble)}
		}
	}()
	var asked question
	if err := json.Unmarshal(line, &asked); err != nil {
		return answer{Panic: "the question cannot be read: " + err.Error()}
	}
	switch {
	case asked.Load != nil:
		return load(*asked.Load)
	case asked.Convert != nil:
		return given(templates.JSONToYAML([]byte(*asked.Convert)))
	case asked.Kinds != nil:
		*cluster = newWorld(asked.Kinds, asked.Objects)
		return answer{}
	case asked.Resolve != nil:
		prepared, err := (*cluster).prepare(asked.Resolve)
		if err != nil {
			return answer{Error: err.Error()}
		}
		resolved, err := prepared()
		result = given(resolved.ResolvedJSON, err)
		result.Sensitive = resolved.HasSensitiveData
		return result
	case asked.Time != nil:
		return measure(*cluster, asked.Time, asked.Seconds)
	}
	return answer{Panic: "nothing was asked"}
}

func main() {
	klog.InitFlags(nil)
	_ = flag.Set("logtostderr", "false")
	_ = flag.Set("stderrthreshold", "FATAL")
	klog.SetOutput(io.Discard)
	cluster := newWorld(nil, nil)
	in, out := bufio.NewReaderSize(os.Stdin, 1<<20), bufio.NewWriter(os.Stdout)
	defer out.Flush()
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	for {
		line, err := in.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			if encoder.Encode(reply(&cluster, line)) != nil || in.Buffered() == 0 && out.Flush() != nil {
				os.Exit(1)
			}
		}
		if err != nil {
			return
		}
	}
}

// Bench times Go's text/template with sprig, and go-template-utils' resolver, on the cases of bench/gotemplate.py.
//
// It reads one JSON line per measurement and answers with nanoseconds per operation. Modes: "parse" parses and
// executes, with a ready function map; "full" also builds sprig's map each time; "execute" runs a parsed template;
// "resolve" calls ResolveTemplate, which is what upstream's controller does per object.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"text/template"
	"time"

	"github.com/Masterminds/sprig/v3"
	"github.com/stolostron/go-template-utils/v7/pkg/templates"
	"k8s.io/client-go/rest"
)

type measurement struct {
	Mode    string          `json:"mode"`
	Text    string          `json:"text"`
	Data    json.RawMessage `json:"data"`
	Seconds float64         `json:"seconds"`
}

type result struct {
	Nanoseconds float64 `json:"ns"`
	Rounds      int     `json:"rounds"`
	Error       string  `json:"error,omitempty"`
}

type hubContext struct {
	ManagedClusterName   string
	ManagedClusterLabels map[string]string
}

func operation(m measurement) (func() error, error) {
	var data any
	if len(m.Data) > 0 && m.Mode != "resolve" {
		if err := json.Unmarshal(m.Data, &data); err != nil {
			return nil, err
		}
	}
	funcs := sprig.TxtFuncMap()
	switch m.Mode {
	case "full":
		return func() error {
			t, err := template.New("tmpl").Funcs(sprig.TxtFuncMap()).Parse(m.Text)
			if err != nil {
				return err
			}
			return t.Execute(io.Discard, data)
		}, nil
	case "parse":
		return func() error {
			t, err := template.New("tmpl").Funcs(funcs).Parse(m.Text)
			if err != nil {
				return err
			}
			return t.Execute(io.Discard, data)
		}, nil
	case "execute":
		t, err := template.New("tmpl").Funcs(funcs).Parse(m.Text)
		if err != nil {
			return nil, err
		}
		return func() error { return t.Execute(io.Discard, data) }, nil
	case "resolve":
		resolver, err := templates.NewResolver(&rest.Config{Host: "http://127.0.0.1:1"}, templates.Config{})
		if err != nil {
			return nil, err
		}
		var context hubContext
		if err := json.Unmarshal(m.Data, &context); err != nil {
			return nil, err
		}
		return func() error {
			_, err := resolver.ResolveTemplate([]byte(m.Text), context, nil)
			return err
		}, nil
	}
	return nil, fmt.Errorf("unknown mode %q", m.Mode)
}

func measure(m measurement) result {
	op, err := operation(m)
	if err == nil {
		err = op()
	}
	if err != nil {
		return result{Error: err.Error()}
	}
	rounds, batch := 0, 1
	start := time.Now()
	limit := time.Duration(m.Seconds * float64(time.Second))
	for time.Since(start) < limit {
		for i := 0; i < batch; i++ {
			if err := op(); err != nil {
				return result{Error: err.Error()}
			}
		}
		rounds += batch
		if batch < 1024 {
			batch *= 2
		}
	}
	return result{Nanoseconds: float64(time.Since(start).Nanoseconds()) / float64(rounds), Rounds: rounds}
}

func main() {
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	enc := json.NewEncoder(os.Stdout)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 1 {
			var m measurement
			var r result
			if err := json.Unmarshal(line, &m); err != nil {
				r = result{Error: err.Error()}
			} else {
				r = measure(m)
			}
			if err := enc.Encode(r); err != nil {
				os.Exit(1)
			}
		}
		if err != nil {
			return
		}
	}
}

// Program requestinfo-oracle says how kube-apiserver reads requests. A request is one line of JSON, {"method", "target"}; the answer
// is one line: what its RequestInfo has, or an error where the server would not get as far as that.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/klog/v2"
)

type question struct {
	Method string `json:"method"`
	Target string `json:"target"`
}

type answer struct {
	Error         string   `json:"error,omitempty"`
	IsResource    bool     `json:"is_resource"`
	Path          string   `json:"path"`
	Verb          string   `json:"verb"`
	Prefix        string   `json:"prefix"`
	Group         string   `json:"group"`
	Version       string   `json:"version"`
	Namespace     string   `json:"namespace"`
	Resource      string   `json:"resource"`
	Subresource   string   `json:"subresource"`
	Name          string   `json:"name"`
	Parts         []string `json:"parts"`
	FieldSelector string   `json:"field_selector"`
	LabelSelector string   `json:"label_selector"`
}

var resolver = request.RequestInfoFactory{
	APIPrefixes:          sets.NewString("api", "apis"),
	GrouplessAPIPrefixes: sets.NewString("api"),
}

func resolve(asked question) answer {
	target, err := url.ParseRequestURI(asked.Target)
	if err != nil {
		return answer{Error: err.Error()}
	}
	info, err := resolver.NewRequestInfo(&http.Request{Method: asked.Method, URL: target})
	if err != nil {
		return answer{Error: err.Error()}
	}
	for _, text := range []string{info.Path, info.FieldSelector, info.LabelSelector} {
		if !utf8.ValidString(text) {
			return answer{Error: "not UTF-8: no access review can say it"}
		}
	}
	return answer{
		IsResource:    info.IsResourceRequest,
		Path:          info.Path,
		Verb:          info.Verb,
		Prefix:        info.APIPrefix,
		Group:         info.APIGroup,
		Version:       info.APIVersion,
		Namespace:     info.Namespace,
		Resource:      info.Resource,
		Subresource:   info.Subresource,
		Name:          info.Name,
		Parts:         info.Parts,
		FieldSelector: info.FieldSelector,
		LabelSelector: info.LabelSelector,
	}
}

func main() {
	klog.SetOutput(io.Discard)
	klog.LogToStderr(false)
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	answers := json.NewEncoder(out)
	for lines.Scan() {
		var asked question
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		if err := answers.Encode(resolve(asked)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

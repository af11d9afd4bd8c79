package main

import (
	"fmt"
	"net/url"
	"regexp"
	"time"
)

// ListResult is how long one whole list took (all its pages).
type ListResult struct {
	P50   float64 `json:"p50_ms"`
	P99   float64 `json:"p99_ms"`
	Bytes int     `json:"bytes"`
	Pages int     `json:"pages"`
}

var continueToken = regexp.MustCompile(`"continue":"([^"]+)"`)

// list reads the collection, or whatever the path names, several times over one connection, following continue tokens.
func list(s *Server, o Options) (any, error) {
	connection, err := s.connect()
	if err != nil {
		return nil, err
	}
	defer connection.close()
	path := o.Path
	if path == "" {
		path = collection(o.Namespace)
	}
	result := ListResult{}
	durations := []time.Duration{}
	for range o.Repeat {
		began := time.Now()
		result.Bytes, result.Pages = 0, 0
		for token := ""; ; {
			query := o.Query
			if token != "" {
				query += "&continue=" + url.QueryEscape(token)
			}
			status, size, head, err := connection.send(s.request("GET", path+"?"+query, o.Accept, "", nil))
			if err != nil {
				return nil, err
			}
			if status != 200 {
				return nil, fmt.Errorf("list: %d %s", status, head)
			}
			result.Bytes += size
			result.Pages++
			found := continueToken.FindSubmatch(head)
			if found == nil {
				break
			}
			token = string(found[1])
		}
		durations = append(durations, time.Since(began))
	}
	result.P50, result.P99 = percentile(durations, 0.50), percentile(durations, 0.99)
	return result, nil
}

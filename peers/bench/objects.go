package main

import (
	"fmt"
	"strings"
)

// filler makes a ConfigMap 1.1 KB long as the server stores it (without managedFields).
var filler = strings.Repeat("0123456789abcdef", 50)

func collection(namespace string) string { return "/api/v1/namespaces/" + namespace + "/configmaps" }

func objectName(prefix string, index int) string { return fmt.Sprintf("%s-%06d", prefix, index) }

// configMap is the object number `index`; `turn` makes a value that no earlier write had. Every tenth is in the slice
// that the selector list asks for.
func configMap(namespace, name string, index int, turn int64) []byte {
	return []byte(fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"%s","namespace":"%s",`+
		`"labels":{"app":"bench","slice":"s%d"}},"data":{"turn":"%d","filler":"%s"}}`, name, namespace, index%10, turn, filler))
}

// requestFor builds the request of a verb on one object.
func requestFor(s *Server, o Options, verb, name string, index int, turn int64) ([]byte, error) {
	const accept = "application/json"
	path := collection(o.Namespace) + "/" + name
	switch verb {
	case "create":
		return s.request("POST", collection(o.Namespace), accept, accept, configMap(o.Namespace, name, index, turn)), nil
	case "get":
		return s.request("GET", path, accept, "", nil), nil
	case "update":
		return s.request("PUT", path, accept, accept, configMap(o.Namespace, name, index, turn)), nil
	case "patch":
		body := []byte(fmt.Sprintf(`{"data":{"turn":"%d"}}`, turn))
		return s.request("PATCH", path, accept, "application/merge-patch+json", body), nil
	case "apply":
		path += "?fieldManager=bench&force=true"
		return s.request("PATCH", path, accept, "application/apply-patch+yaml", configMap(o.Namespace, name, index, turn)), nil
	case "delete":
		return s.request("DELETE", path, accept, "", nil), nil
	}
	return nil, fmt.Errorf("unknown verb %q", verb)
}

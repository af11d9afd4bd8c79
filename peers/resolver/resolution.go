package main

import (
	"reflect"
	"sort"

	"github.com/stolostron/go-template-utils/v7/pkg/templates"
	"github.com/stolostron/kubernetes-dependency-watches/client"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// resolution is one call of ResolveTemplate. Fields of the context are strings, maps of strings (Labels) or objects (Objects); with
// none of them it is nil, unless it is said to be an empty struct.
type resolution struct {
	Raw         string                       `json:"raw"`
	YAML        bool                         `json:"yaml"`
	Start       string                       `json:"start"`
	Stop        string                       `json:"stop"`
	Indentation uint32                       `json:"indentation"`
	Strings     map[string]string            `json:"strings"`
	Labels      map[string]map[string]string `json:"labels"`
	Objects     map[string]rawObject         `json:"contextObjects"`
	Empty       bool                         `json:"emptyContext"`
	Namespace   string                       `json:"namespace"`
	Allow       [][3]string                  `json:"allow"`
	Deny        []string                     `json:"deny"`
	Key         []byte                       `json:"key"`
	FallbackKey []byte                       `json:"fallbackKey"`
	IV          []byte                       `json:"iv"`
	Encrypt     bool                         `json:"encrypt"`
	Decrypt     bool                         `json:"decrypt"`
}

// rawObject has integers as int64, as objects have that come from an API server.
type rawObject map[string]any

func (o *rawObject) UnmarshalJSON(data []byte) error {
	return utiljson.Unmarshal(data, (*map[string]any)(o))
}

// context makes a struct of the fields, as the controller passes one; nil where there are none.
func (r *resolution) context() any {
	values := map[string]reflect.Value{}
	for name, value := range r.Strings {
		values[name] = reflect.ValueOf(value)
	}
	for name, value := range r.Labels {
		values[name] = reflect.ValueOf(value)
	}
	for name, value := range r.Objects {
		values[name] = reflect.ValueOf(map[string]any(value))
	}
	if len(values) == 0 && !r.Empty {
		return nil
	}
	names := make([]string, 0, len(values))
	for name := range values {
		names = append(names, name)
	}
	sort.Strings(names)
	fields := make([]reflect.StructField, 0, len(names))
	for _, name := range names {
		fields = append(fields, reflect.StructField{Name: name, Type: values[name].Type()})
	}
	made := reflect.New(reflect.StructOf(fields)).Elem()
	for at, name := range names {
		made.Field(at).Set(values[name])
	}
	return made.Interface()
}

// prepare gives what resolves once. Options are made anew each time: the library appends to the ones it is given.
func (w *world) prepare(r *resolution) (func() (templates.TemplateResult, error), error) {
	resolver, err := templates.NewResolverWithDynamicWatcher(w, templates.Config{
		AdditionalIndentation: r.Indentation, StartDelim: r.Start, StopDelim: r.Stop,
	})
	if err != nil {
		return nil, err
	}
	raw, dot, watcher := []byte(r.Raw), r.context(), client.ObjectIdentifier{Version: "v1", Kind: "ConfigMap", Name: "watcher"}
	allow := []templates.ClusterScopedObjectIdentifier{}
	for _, one := range r.Allow {
		allow = append(allow, templates.ClusterScopedObjectIdentifier{Group: one[0], Kind: one[1], Name: one[2]})
	}
	return func() (templates.TemplateResult, error) {
		return resolver.ResolveTemplate(raw, dot, &templates.ResolveOptions{
			ClusterScopedAllowList: allow,
			DenylistFunctions:      append([]string{}, r.Deny...),
			InputIsYAML:            r.YAML,
			LookupNamespace:        r.Namespace,
			Watcher:                &watcher,
			EncryptionConfig: templates.EncryptionConfig{
				AESKey: r.Key, AESKeyFallback: r.FallbackKey, InitializationVector: r.IV,
				EncryptionEnabled: r.Encrypt, DecryptionEnabled: r.Decrypt,
			},
		})
	}, nil
}

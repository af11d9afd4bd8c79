// Command protobuf-corpus writes pairs of Kubernetes protobuf bodies and the JSON the same Go types give, one JSON line each, for
// every kind of the API groups the embedded server carries. Objects are filled at random from a fixed seed, with pointers all nil,
// mostly set and mostly nil, and with many zero values, because those are where the wire and JSON differ. What is recorded as
// JSON is the object read back from the wire: what protobuf does not carry (empty lists) is not expected of a decoder.
//
//	go run . | gzip -9n > ../../tests/unit/decode/data/corpus.jsonl.gz
package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"sort"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/intstr"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/randfill"
)

var groups = []func(*runtime.Scheme) error{
	admissionregistrationv1.AddToScheme, appsv1.AddToScheme, authenticationv1.AddToScheme, authorizationv1.AddToScheme,
	autoscalingv1.AddToScheme, autoscalingv2.AddToScheme, batchv1.AddToScheme, certificatesv1.AddToScheme,
	coordinationv1.AddToScheme, corev1.AddToScheme, discoveryv1.AddToScheme, eventsv1.AddToScheme, flowcontrolv1.AddToScheme,
	networkingv1.AddToScheme, nodev1.AddToScheme, policyv1.AddToScheme, rbacv1.AddToScheme, schedulingv1.AddToScheme,
	storagev1.AddToScheme, apiextensionsv1.AddToScheme, apiregistrationv1.AddToScheme,
}

// Kinds that are registered but no endpoint takes.
var unserved = map[string]bool{
	"WatchEvent": true, "PodStatusResult": true, "RangeAllocation": true, "SerializedReference": true, "ConversionReview": true,
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func kinds(scheme *runtime.Scheme) []schema.GroupVersionKind {
	var found []schema.GroupVersionKind
	for kind, goType := range scheme.AllKnownTypes() {
		if kind.Version == runtime.APIVersionInternal || unserved[kind.Kind] {
			continue
		}
		// Options kinds are registered in every group; once is enough.
		isOptions := strings.HasSuffix(kind.Kind, "Options")
		if isOptions && !(kind.Group == "" && strings.Contains(goType.PkgPath(), "meta/v1")) {
			continue
		}
		found = append(found, kind)
	}
	sort.Slice(found, func(i, j int) bool { return found[i].String() < found[j].String() })
	return found
}

func pick[T any](c randfill.Continue, values ...T) T { return values[c.Intn(len(values))] }

func filler(random *rand.Rand, nilChance float64, depth int) *randfill.Filler {
	moment := func(c randfill.Continue) metav1.Time { return metav1.Unix(1700000000+int64(c.Intn(1000)), 5000) }
	microMoment := metav1.NewMicroTime(time.Unix(1700000000, 123456789))
	return randfill.New().RandSource(random).NilChance(nilChance).NumElements(1, 1).MaxDepth(depth).Funcs(
		func(s *string, c randfill.Continue) { *s = pick(c, "a", "beta", "x-1", "nginx:1", "", "Γ", "true") },
		func(i *int32, c randfill.Continue) { *i = pick[int32](c, 0, 1, -1, 70000) },
		func(i *int64, c randfill.Continue) { *i = pick[int64](c, 0, 1, -1, 1<<40) },
		func(f *float64, c randfill.Continue) { *f = pick(c, 0, 1.5, 3) },
		func(b *[]byte, c randfill.Continue) {
			if *b = nil; nilChance != 1 {
				*b = []byte{1, 2, byte(c.Intn(250))}
			}
		},
		func(t *metav1.Time, c randfill.Continue) { *t = pick(c, metav1.Time{}, moment(c)) },
		func(t *metav1.MicroTime, c randfill.Continue) { *t = pick(c, metav1.MicroTime{}, microMoment) },
		// A pointer to the zero time is nothing a client sends, and JSON cannot tell it from nil.
		func(t **metav1.Time, c randfill.Continue) {
			if *t = nil; c.Intn(2) == 1 {
				value := moment(c)
				*t = &value
			}
		},
		func(t **metav1.MicroTime, c randfill.Continue) {
			if *t = nil; c.Intn(2) == 1 {
				value := microMoment
				*t = &value
			}
		},
		func(d *metav1.Duration, c randfill.Continue) {
			d.Duration = time.Duration(c.Intn(100000)) * time.Millisecond
		},
		func(q *resource.Quantity, c randfill.Continue) {
			*q = resource.MustParse(pick(c, "0", "1", "100m", "2Gi", "1000m", "1.5"))
			_ = q.String()
		},
		func(i *intstr.IntOrString, c randfill.Continue) {
			*i = pick(c, intstr.FromInt32(0), intstr.FromInt32(80), intstr.FromString("http"), intstr.FromString(""))
		},
		func(r *runtime.RawExtension, c randfill.Continue) {
			if nilChance != 1 {
				r.Raw = []byte(`{"a":[1,null]}`)
			}
		},
		func(r *apiextensionsv1.JSON, c randfill.Continue) { r.Raw = []byte(`"x"`) },
		func(r *metav1.FieldsV1, c randfill.Continue) { r.Raw = []byte(`{"f:a":{}}`) },
		func(p *apiextensionsv1.JSONSchemaPropsOrArray, c randfill.Continue) {
			if c.Intn(2) == 0 {
				p.Schema = &apiextensionsv1.JSONSchemaProps{Type: "string"}
			} else {
				p.JSONSchemas = []apiextensionsv1.JSONSchemaProps{{Type: "a"}, {Type: "b"}}
			}
		},
		func(p *apiextensionsv1.JSONSchemaPropsOrBool, c randfill.Continue) {
			if c.Intn(2) == 0 {
				p.Allows, p.Schema = true, &apiextensionsv1.JSONSchemaProps{Type: "string"}
			} else {
				p.Allows = c.Intn(2) == 0
			}
		},
		func(p *apiextensionsv1.JSONSchemaPropsOrStringArray, c randfill.Continue) {
			if c.Intn(2) == 0 {
				p.Schema = &apiextensionsv1.JSONSchemaProps{Type: "string"}
			} else {
				p.Property = []string{"a", "b"}
			}
		},
		func(p *apiextensionsv1.JSONSchemaProps, c randfill.Continue) {
			if c.Intn(3) == 0 {
				c.FillNoCustom(p)
				return
			}
			zero := int64(0)
			p.Type, p.Required, p.MinLength = "object", []string{"x"}, &zero
		},
	)
}

func main() {
	scheme := runtime.NewScheme()
	for _, add := range groups {
		must(add(scheme))
	}
	wire := protobuf.NewSerializer(scheme, scheme)
	random := rand.New(rand.NewSource(35))
	lines := json.NewEncoder(os.Stdout)
	for _, kind := range kinds(scheme) {
		list := strings.HasSuffix(kind.Kind, "List")
		for _, nilChance := range []float64{1.0, 0.25, 0.75} {
			if list && nilChance != 0.75 {
				continue
			}
			depth := 9
			if list || kind.Kind == "CustomResourceDefinition" {
				depth = 8
			}
			obj, err := scheme.New(kind)
			must(err)
			filler(random, nilChance, depth).Fill(obj)
			obj.GetObjectKind().SetGroupVersionKind(kind)
			var body bytes.Buffer
			must(wire.Encode(obj, &body))
			back, err := scheme.New(kind)
			must(err)
			_, _, err = wire.Decode(body.Bytes(), &kind, back)
			must(err)
			back.GetObjectKind().SetGroupVersionKind(kind)
			shown, err := json.Marshal(back)
			must(err)
			must(lines.Encode(map[string]any{
				"gvk":  fmt.Sprintf("%s/%s/%s", kind.Group, kind.Version, kind.Kind),
				"pb":   base64.StdEncoding.EncodeToString(body.Bytes()),
				"json": json.RawMessage(shown),
			}))
		}
	}
}

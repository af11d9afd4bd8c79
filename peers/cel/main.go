// The CEL oracle: reads one JSON request per line, answers one JSON line per request, using cel-go and the
// Kubernetes CEL environment exactly as kube-apiserver sets them up.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	schemacel "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/version"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"
)

type request struct {
	Expr   string            `json:"expr"`
	Vars   map[string]string `json:"vars"`
	Values json.RawMessage   `json:"values"`
	Schema json.RawMessage   `json:"schema"`
	Root   bool              `json:"root"`
	Limit  uint64            `json:"limit"`
}

type answer struct {
	Type         string  `json:"type,omitempty"`
	Value        string  `json:"value,omitempty"`
	Error        string  `json:"error,omitempty"`
	CompileError string  `json:"compileError,omitempty"`
	Cost         *uint64 `json:"cost,omitempty"`
	MaxCost      *uint64 `json:"maxCost,omitempty"`
	Cardinality  uint64  `json:"cardinality,omitempty"`
}

var base = environment.MustBaseEnvSet(version.MajorMinor(1, 35))

var named = map[string]*cel.Type{
	"dyn": cel.DynType, "int": cel.IntType, "uint": cel.UintType, "double": cel.DoubleType, "string": cel.StringType,
	"bool": cel.BoolType, "bytes": cel.BytesType, "list(dyn)": cel.ListType(cel.DynType), "list(int)": cel.ListType(cel.IntType),
	"list(string)": cel.ListType(cel.StringType), "map(string, dyn)": cel.MapType(cel.StringType, cel.DynType),
	"map(string, int)": cel.MapType(cel.StringType, cel.IntType), "map(string, string)": cel.MapType(cel.StringType, cel.StringType),
}

func render(v ref.Val) string {
	switch t := v.(type) {
	case types.Bool:
		return strconv.FormatBool(bool(t))
	case types.Int:
		return strconv.FormatInt(int64(t), 10)
	case types.Uint:
		return strconv.FormatUint(uint64(t), 10) + "u"
	case types.Double:
		f := float64(t)
		switch {
		case math.IsNaN(f):
			return "NaN"
		case math.IsInf(f, 1):
			return "+Inf"
		case math.IsInf(f, -1):
			return "-Inf"
		}
		return "double(" + strconv.FormatFloat(f, 'g', -1, 64) + ")"
	case types.String:
		b, _ := json.Marshal(string(t))
		return string(b)
	case types.Bytes:
		return fmt.Sprintf("b'%x'", []byte(t))
	case types.Null:
		return "null"
	case types.Timestamp:
		return "timestamp(" + t.Time.UTC().Format(time.RFC3339Nano) + ")"
	case types.Duration:
		return fmt.Sprintf("duration(%d)", t.Duration.Nanoseconds())
	case *types.Optional:
		if !t.HasValue() {
			return "optional.none()"
		}
		return "optional.of(" + render(t.GetValue()) + ")"
	case *types.Type:
		return "type(" + t.TypeName() + ")"
	}
	if m, ok := v.(traits.Mapper); ok {
		var parts []string
		for it := m.Iterator(); it.HasNext() == types.True; {
			k := it.Next()
			if k == nil {
				continue
			}
			parts = append(parts, render(k)+": "+render(m.Get(k)))
		}
		sort.Strings(parts)
		return "{" + strings.Join(parts, ", ") + "}"
	}
	if l, ok := v.(traits.Lister); ok {
		parts := []string{}
		for it := l.Iterator(); it.HasNext() == types.True; {
			parts = append(parts, render(it.Next()))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	s := v.ConvertToType(types.StringType)
	if str, ok := s.(types.String); ok {
		return v.Type().TypeName() + "(" + string(str) + ")"
	}
	return v.Type().TypeName()
}

func plain(r request) (a answer) {
	var opts []cel.EnvOption
	for name, t := range r.Vars {
		ct, ok := named[t]
		if !ok {
			return answer{Error: "oracle: unknown type " + t}
		}
		opts = append(opts, cel.Variable(name, ct))
	}
	env, err := base.StoredExpressionsEnv().Extend(opts...)
	if err != nil {
		return answer{Error: "oracle: " + err.Error()}
	}
	ast, issues := env.Compile(r.Expr)
	if issues != nil && issues.Err() != nil {
		return answer{CompileError: issues.String()}
	}
	a.Type = ast.OutputType().String()
	limit := r.Limit
	if limit == 0 {
		limit = celconfig.PerCallLimit
	}
	prog, err := env.Program(ast, cel.CostLimit(limit), cel.CostTracking(&library.CostEstimator{}))
	if err != nil {
		a.CompileError = "program: " + err.Error()
		return a
	}
	if est, err := env.EstimateCost(ast, &library.CostEstimator{}); err == nil {
		a.MaxCost = &est.Max
	}
	values := map[string]any{}
	if len(r.Values) > 0 {
		if err := utiljson.Unmarshal(r.Values, &values); err != nil {
			return answer{Error: "oracle: " + err.Error()}
		}
	}
	out, details, err := prog.Eval(values)
	if details != nil {
		a.Cost = details.ActualCost()
	}
	if err != nil {
		a.Error = err.Error()
		return a
	}
	a.Value = render(out)
	return a
}

func crd(r request) (a answer) {
	var v1props apiextensionsv1.JSONSchemaProps
	if err := json.Unmarshal(r.Schema, &v1props); err != nil {
		return answer{Error: "oracle: " + err.Error()}
	}
	var props apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&v1props, &props, nil); err != nil {
		return answer{Error: "oracle: " + err.Error()}
	}
	s, err := schema.NewStructural(&props)
	if err != nil {
		return answer{Error: "oracle: " + err.Error()}
	}
	s.XValidations = apiextensionsv1.ValidationRules{{Rule: r.Expr}}
	limit := r.Limit
	if limit == 0 {
		limit = celconfig.PerCallLimit
	}
	results, err := schemacel.Compile(s, model.SchemaDeclType(s, r.Root), limit, base, schemacel.StoredExpressionsEnvLoader())
	if err != nil {
		return answer{CompileError: err.Error()}
	}
	res := results[0]
	if res.Error != nil {
		return answer{CompileError: res.Error.Detail}
	}
	a.MaxCost = &res.MaxCost
	a.Cardinality = res.MaxCardinality
	a.Type = "bool"
	values := map[string]any{}
	if len(r.Values) == 0 {
		return a
	}
	if err := utiljson.Unmarshal(r.Values, &values); err != nil {
		return answer{Error: "oracle: " + err.Error()}
	}
	active := s
	if r.Root {
		active = model.WithTypeAndObjectMeta(s)
	}
	vars := map[string]any{"self": schemacel.UnstructuredToVal(values["self"], active)}
	if old, ok := values["oldSelf"]; ok {
		vars["oldSelf"] = schemacel.UnstructuredToVal(old, active)
	}
	out, details, err := res.Program.Eval(vars)
	if details != nil {
		a.Cost = details.ActualCost()
	}
	if err != nil {
		a.Error = err.Error()
		return a
	}
	a.Value = render(out)
	return a
}

func main() {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(make([]byte, 1<<20), 64<<20)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	for in.Scan() {
		var r request
		var a answer
		if err := json.Unmarshal(in.Bytes(), &r); err != nil {
			a.Error = "oracle: " + err.Error()
		} else {
			func() {
				defer func() {
					if p := recover(); p != nil {
						a = answer{Error: fmt.Sprintf("oracle panic: %v", p)}
					}
				}()
				if len(r.Schema) > 0 {
					a = crd(r)
				} else {
					a = plain(r)
				}
			}()
		}
		_ = enc.Encode(a)
		_ = out.Flush()
	}
}

package main

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
)

// decode turns the typed notation into Go values: plain JSON means float64, string, bool, nil, []any and
// map[string]any; {"$t": type, "v": value} names any other type.
func decode(raw json.RawMessage) (any, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return nil, err
	}
	return convert(v)
}

func convert(v any) (any, error) {
	switch v := v.(type) {
	case []any:
		for i := range v {
			item, err := convert(v[i])
			if err != nil {
				return nil, err
			}
			v[i] = item
		}
		return v, nil
	case map[string]any:
		if name, ok := v["$t"].(string); ok {
			return typed(name, v["v"])
		}
		for key := range v {
			item, err := convert(v[key])
			if err != nil {
				return nil, err
			}
			v[key] = item
		}
		return v, nil
	}
	return v, nil
}

var integers = map[string]any{
	"int": int(0), "int8": int8(0), "int16": int16(0), "int32": int32(0), "int64": int64(0),
	"uint": uint(0), "uint8": uint8(0), "uint16": uint16(0), "uint32": uint32(0), "uint64": uint64(0),
}

func typed(name string, v any) (any, error) {
	if zero, ok := integers[name]; ok {
		// Integers travel as strings: a JSON number would lose bits beyond 2^53.
		text, _ := v.(string)
		into := reflect.New(reflect.TypeOf(zero)).Elem()
		if into.CanInt() {
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return nil, err
			}
			into.SetInt(n)
		} else {
			n, err := strconv.ParseUint(text, 10, 64)
			if err != nil {
				return nil, err
			}
			into.SetUint(n)
		}
		return into.Interface(), nil
	}
	switch name {
	case "float64":
		switch v {
		case "NaN":
			return math.NaN(), nil
		case "+Inf":
			return math.Inf(1), nil
		case "-Inf":
			return math.Inf(-1), nil
		}
		return strconv.ParseFloat(v.(string), 64)
	case "bytes":
		return []byte(v.(string)), nil
	case "[]string":
		out := []string{}
		for _, item := range v.([]any) {
			out = append(out, item.(string))
		}
		return out, nil
	case "[]int":
		out := []int{}
		for _, item := range v.([]any) {
			out = append(out, int(item.(float64)))
		}
		return out, nil
	case "map[string]string":
		out := map[string]string{}
		for key, item := range v.(map[string]any) {
			out[key] = item.(string)
		}
		return out, nil
	case "map[int]string":
		out := map[int]string{}
		for key, item := range v.(map[string]any) {
			n, err := strconv.Atoi(key)
			if err != nil {
				return nil, err
			}
			out[n] = item.(string)
		}
		return out, nil
	case "nil[]interface {}":
		return []any(nil), nil
	case "nilmap[string]interface {}":
		return map[string]any(nil), nil
	case "struct":
		return structOf(v.([]any))
	}
	return nil, fmt.Errorf("unknown type %q", name)
}

// structOf builds an anonymous struct from [name, value] pairs, as the policy controller's contexts are.
func structOf(pairs []any) (any, error) {
	var fields []reflect.StructField
	var values []reflect.Value
	for _, pair := range pairs {
		item, err := convert(pair.([]any)[1])
		if err != nil {
			return nil, err
		}
		value := reflect.ValueOf(item)
		fields = append(fields, reflect.StructField{Name: pair.([]any)[0].(string), Type: value.Type()})
		values = append(values, value)
	}
	out := reflect.New(reflect.StructOf(fields)).Elem()
	for i, value := range values {
		out.Field(i).Set(value)
	}
	return out.Interface(), nil
}

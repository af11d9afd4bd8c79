// Unicode prints, as JSON, the tables of Go's unicode package that templates can observe: character classes as ranges
// and simple case mappings as [first, last, upper, lower, title] offsets. Its output is
// src/muster/machinery/golang/unicode.json.
package main

import (
	"encoding/json"
	"os"
	"runtime"
	"unicode"
)

func ranges(in func(rune) bool) [][2]rune {
	out := [][2]rune{}
	for r := rune(0x80); r <= unicode.MaxRune; r++ {
		if !in(r) {
			continue
		}
		if n := len(out); n > 0 && out[n-1][1] == r-1 {
			out[n-1][1] = r
		} else {
			out = append(out, [2]rune{r, r})
		}
	}
	return out
}

func cases() [][5]rune {
	out := [][5]rune{}
	for r := rune(0x80); r <= unicode.MaxRune; r++ {
		up, low, title := unicode.ToUpper(r)-r, unicode.ToLower(r)-r, unicode.ToTitle(r)-r
		if up == 0 && low == 0 && title == 0 {
			continue
		}
		if n := len(out); n > 0 && out[n-1][1] == r-1 && out[n-1][2] == up && out[n-1][3] == low && out[n-1][4] == title {
			out[n-1][1] = r
		} else {
			out = append(out, [5]rune{r, r, up, low, title})
		}
	}
	return out
}

func main() {
	out, err := json.Marshal(map[string]any{
		"go":      runtime.Version(),
		"unicode": unicode.Version,
		"print":   ranges(unicode.IsPrint),
		"letter":  ranges(unicode.IsLetter),
		"digit":   ranges(unicode.IsDigit),
		"number":  ranges(unicode.IsNumber),
		"upper":   ranges(unicode.IsUpper),
		"lower":   ranges(unicode.IsLower),
		"title":   ranges(unicode.IsTitle),
		"punct":   ranges(unicode.IsPunct),
		"space":   ranges(unicode.IsSpace),
		"cases":   cases(),
	})
	if err != nil {
		panic(err)
	}
	os.Stdout.Write(append(out, '\n'))
}

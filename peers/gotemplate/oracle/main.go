// Oracle answers, for each JSON line on standard input, what Go's text/template with sprig makes of one template.
//
// It is the reference that src/muster/gotemplate is compared with: a request names the template text, the data in a
// small typed notation, delimiters and options; the reply holds the output or the error text, word for word.
package main

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"text/template"
	"unicode/utf8"

	"github.com/Masterminds/sprig/v3"
)

type request struct {
	Text    string          `json:"t"`
	Data    json.RawMessage `json:"d"`
	Left    string          `json:"l"`
	Right   string          `json:"r"`
	Plain   bool            `json:"plain"`
	Missing string          `json:"missing"`
}

// A reply's output is text when it is valid UTF-8 and hexadecimal otherwise, for JSON has no other bytes.
type reply struct {
	Output string `json:"o,omitempty"`
	Hex    string `json:"x,omitempty"`
	Error  string `json:"e,omitempty"`
}

func answer(req *request, withSprig template.FuncMap) (rep reply) {
	defer func() {
		if r := recover(); r != nil {
			rep = reply{Error: fmt.Sprintf("panic: %v", r)}
		}
	}()
	t := template.New("tmpl").Delims(req.Left, req.Right)
	if req.Missing != "" {
		t = t.Option("missingkey=" + req.Missing)
	}
	if !req.Plain {
		t = t.Funcs(withSprig)
	}
	t, err := t.Parse(req.Text)
	if err != nil {
		return reply{Error: err.Error()}
	}
	data, err := decode(req.Data)
	if err != nil {
		return reply{Error: "oracle: " + err.Error()}
	}
	var out bytes.Buffer
	if err := t.Execute(&out, data); err != nil {
		return reply{Error: err.Error()}
	}
	if !utf8.Valid(out.Bytes()) {
		return reply{Hex: hex.EncodeToString(out.Bytes())}
	}
	return reply{Output: out.String()}
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "version" {
		fmt.Println(runtime.Version())
		return
	}
	funcs := sprig.TxtFuncMap()
	delete(funcs, "env")
	delete(funcs, "expandenv")
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := bufio.NewWriterSize(os.Stdout, 1<<20)
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	for {
		line, err := in.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			var req request
			var rep reply
			if err := json.Unmarshal(line, &req); err != nil {
				rep = reply{Error: "oracle: " + err.Error()}
			} else {
				rep = answer(&req, funcs)
			}
			if err := enc.Encode(rep); err != nil {
				os.Exit(1)
			}
		} else if err == nil {
			out.Flush() // An empty line asks for what is buffered.
		}
		if err != nil {
			break
		}
	}
	out.Flush()
}

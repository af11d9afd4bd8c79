// The policy oracle: upstream's dryrun command, in process, reading cases as JSON lines and answering the same way.
//
// A case is a policy and the objects of its cluster, both as JSON. The answer is what the command writes to its files and prints,
// and the code it would exit with.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"open-cluster-management.io/config-policy-controller/pkg/dryrun"
)

type testCase struct {
	Policy  json.RawMessage   `json:"policy"`
	Objects []json.RawMessage `json:"objects"`
	// Flags are given to the command as they are.
	Flags []string `json:"flags"`
	// DesiredStatus is what the result is to be compared with; empty for not at all.
	DesiredStatus json.RawMessage `json:"desiredStatus"`
}

type answer struct {
	Code     int             `json:"code"`
	Error    string          `json:"error,omitempty"`
	Status   json.RawMessage `json:"status,omitempty"`
	Messages []string        `json:"messages"`
	Output   string          `json:"output"`
}

// The fake clients list only kinds that their scheme knows: one custom kind, for content that no Go type holds.
func init() {
	widgets := schema.GroupVersion{Group: "example.com", Version: "v1"}
	scheme.Scheme.AddKnownTypeWithName(widgets.WithKind("Widget"), &unstructured.Unstructured{})
	scheme.Scheme.AddKnownTypeWithName(widgets.WithKind("WidgetList"), &unstructured.UnstructuredList{})
}

func main() {
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve() error {
	dir, err := os.MkdirTemp("", "policy-oracle-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)

	input := bufio.NewScanner(os.Stdin)
	input.Buffer(make([]byte, 1<<20), 1<<28)
	output := json.NewEncoder(os.Stdout)
	for input.Scan() {
		var asked testCase
		if err := json.Unmarshal(input.Bytes(), &asked); err != nil {
			return err
		}
		given, err := judge(dir, asked)
		if err != nil {
			return err
		}
		if err := output.Encode(given); err != nil {
			return err
		}
	}
	return input.Err()
}

func judge(dir string, asked testCase) (given answer, err error) {
	policyPath := filepath.Join(dir, "policy.json")
	objectsPath := filepath.Join(dir, "objects.yaml")
	statusPath := filepath.Join(dir, "status.yaml")
	messagesPath := filepath.Join(dir, "messages.txt")
	for _, path := range []string{statusPath, messagesPath} {
		if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
			return given, err
		}
	}
	var objects bytes.Buffer
	for _, object := range asked.Objects {
		objects.WriteString("---\n")
		objects.Write(object)
		objects.WriteString("\n")
	}
	if err := os.WriteFile(policyPath, asked.Policy, 0o600); err != nil {
		return given, err
	}
	if err := os.WriteFile(objectsPath, objects.Bytes(), 0o600); err != nil {
		return given, err
	}

	args := append([]string{
		"--policy", policyPath, "--status-path", statusPath, "--messages-path", messagesPath, "--no-colors",
	}, asked.Flags...)
	if len(asked.DesiredStatus) > 0 {
		desiredPath := filepath.Join(dir, "desired.json")
		if err := os.WriteFile(desiredPath, asked.DesiredStatus, 0o600); err != nil {
			return given, err
		}
		args = append(args, "--desired-status", desiredPath)
	}

	var printed bytes.Buffer
	runner := dryrun.DryRunner{}
	command := runner.GetCmd()
	command.SetArgs(append(args, objectsPath))
	command.SetIn(strings.NewReader(""))
	command.SetOut(&printed)
	command.SetErr(&bytes.Buffer{})

	runErr := func() (err error) {
		defer func() {
			if panicked := recover(); panicked != nil {
				err = fmt.Errorf("panic: %v", panicked)
			}
		}()
		return command.ExecuteContext(context.Background())
	}()
	given = answer{Messages: []string{}, Output: printed.String()}
	switch {
	case errors.Is(runErr, dryrun.ErrNonCompliant):
		given.Code = 2
	case runErr != nil:
		given.Code = 1
		given.Error = runErr.Error()
	}
	if status, err := os.ReadFile(statusPath); err == nil {
		if given.Status, err = yaml.YAMLToJSON(status); err != nil {
			return given, err
		}
	}
	if messages, err := os.ReadFile(messagesPath); err == nil && len(messages) > 0 {
		given.Messages = strings.Split(strings.TrimSuffix(string(messages), "\n"), "\n")
	}
	return given, nil
}

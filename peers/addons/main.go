// Program addon-oracle plays addons to upstream's addon manager and addon framework, in this process and on fake clients, and says
// what they made of them. A world is one line of JSON, a list of steps; the answer is one line, a list of answers.
//
//	step:   {"now": time, "set": [object…], "delete": [{"kind", "namespace", "name"}…], "agents": {cluster: state}}
//	answer: the ClusterManagementAddOns, ManagedClusterAddOns and ManifestWorks when nothing changes any more
//
// The state of a cluster's work agent is silent (it has reported nothing), failing, applied or ready. Controllers are called one after
// the other, and what each has written is in the caches of the next; moments in conditions are those of the step.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"k8s.io/klog/v2"
)

type reference struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

type step struct {
	Now    time.Time         `json:"now"`
	Set    []json.RawMessage `json:"set"`
	Delete []reference       `json:"delete"`
	Agents map[string]string `json:"agents"`
}

// A world settles in some ten rounds; one that has not by then never will.
const rounds = 60

func play(ctx context.Context, steps []step) ([]answer, error) {
	w, err := newWorld(ctx)
	if err != nil {
		return nil, err
	}
	defer w.close()
	var answers []answer
	for _, one := range steps {
		w.clock.SetTime(one.Now)
		w.agents = one.Agents
		for _, gone := range one.Delete {
			if err := w.remove(gone); err != nil {
				return nil, err
			}
		}
		for _, raw := range one.Set {
			if err := w.set(raw); err != nil {
				return nil, err
			}
		}
		said, err := w.settle(ctx)
		if err != nil {
			return nil, err
		}
		answers = append(answers, said)
	}
	return answers, nil
}

func main() {
	klog.SetOutput(io.Discard)
	klog.LogToStderr(false)
	ctx := context.Background()
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	answers := bufio.NewWriter(os.Stdout)
	defer answers.Flush()
	for lines.Scan() {
		var steps []step
		err := json.Unmarshal(lines.Bytes(), &steps)
		var said []answer
		if err == nil {
			said, err = play(ctx, steps)
		}
		if err == nil {
			err = json.NewEncoder(answers).Encode(said)
		}
		if err != nil {
			answers.Flush()
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
	}
}

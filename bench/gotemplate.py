"""Go templates: ours and Go's side by side, on one machine, in one run.

    python -m bench.gotemplate [--short]

Each row times the same template and data in Python and in Go (the program in peers/gotemplate/bench), in turns, and
takes the best of several turns for both, so that another process's burst harms neither side more. Rows:

- parse+execute of a small template: Go parses each time; ours once without and once with its cache of programs;
- execute of parsed templates: small, a policy of 4 KB with 40 actions, a range over 1,000 items;
- a policy of 4 KB through go-template-utils' ResolveTemplate, against our render of the same text (cached, as the
  policy controller uses it), and against render plus reading the output as YAML and writing it as JSON, which
  ResolveTemplate does too.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from muster.gotemplate import Template
from muster.gotemplate import template as engine
from muster.gotemplate.values import Map, Struct

PEER = Path(__file__).parent.parent / "peers" / "gotemplate"
SMALL = "Hello {{ .name | upper }}, you are on {{ .cluster }}{{ if .admin }} as administrator{{ end }}.\n"
SMALL_DATA = {"name": "ada", "cluster": "cluster1", "admin": True}
ITEMS = "{{ range $i, $e := .items }}- {{ $i }}: {{ $e.name }} ({{ $e.size }})\n{{ end }}"
ITEMS_DATA = {"items": [{"name": f"item-{number}", "size": float(number)} for number in range(1000)]}
LABELS = {"env": "prod", "region": "eu-west-1", "tier": "gold", "owner": "team-a"}
POLICY_DATA = {"name": "cluster1", "labels": LABELS, "replicas": 3.0, "zones": ["a", "b", "c"], "debug": False}


def policy_text() -> str:
    """A policy of about 4 KB with ten objects and four actions in each."""
    parts = ["apiVersion: policy.open-cluster-management.io/v1\nkind: ConfigurationPolicy\nspec:\n  object-templates:\n"]
    for number in range(10):
        parts.append(
            f"""  - complianceType: musthave
    objectDefinition:
      apiVersion: v1
      kind: ConfigMap
      metadata:
        name: settings-{number}-{{{{ .name }}}}
        namespace: '{{{{ .labels.env | default "dev" }}}}'
        labels: {{app: "settings", part-of: "platform", managed-by: "muster", stage: "stable-{number}"}}
      data:
        region: {{{{ .labels.region | upper | quote }}}}
        owner: '{{{{ if eq .labels.tier "gold" }}}}{{{{ printf "%s-%s" .labels.owner .name }}}}{{{{ else }}}}none{{{{ end }}}}'
        comment: "some text that stays as it is, so that the policy has its size"
"""
        )
    return "".join(parts)


def resolver_policy() -> tuple[str, str]:
    """The policy for the resolver: as JSON for ResolveTemplate, and as the YAML into which it turns the JSON."""
    objects = []
    for number in range(10):
        objects.append(
            {
                "complianceType": "musthave",
                "objectDefinition": {
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "metadata": {
                        "name": f"settings-{number}-{{{{ .ManagedClusterName }}}}",
                        "namespace": '{{ index .ManagedClusterLabels "env" | default "dev" }}',
                    },
                    "data": {
                        "region": "{{ .ManagedClusterLabels.region | upper | quote }}",
                        "owner": '{{ printf "%s-%s" .ManagedClusterLabels.owner .ManagedClusterName }}',
                        "comment": "some text that stays as it is, so that the policy has its size, and then a little more",
                    },
                },
            }
        )
    spec = {"object-templates": objects, "remediationAction": "enforce", "severity": "low"}
    return json.dumps(spec), yaml.dump(spec, width=10_000)


class GoBench:
    def __init__(self, directory: Path) -> None:
        self.process = subprocess.Popen([directory / "bench"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __call__(self, mode: str, text: str, data: Any, seconds: float) -> float:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        request = {"mode": mode, "text": text, "data": data, "seconds": seconds}
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()
        reply = json.loads(self.process.stdout.readline())
        if reply.get("error"):
            raise RuntimeError(f"Go bench: {reply['error']}")
        return float(reply["ns"])

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(timeout=10)


def measure(operation: Callable[[], object], seconds: float) -> float:
    """Nanoseconds per call."""
    rounds, batch = 0, 1
    start = time.perf_counter()
    while (elapsed := time.perf_counter() - start) < seconds:
        for _ in range(batch):
            operation()
        rounds += batch
        batch = min(batch * 2, 256)
    return elapsed / rounds * 1e9


def uncached(text: str, data: Any) -> Callable[[], object]:
    def operation() -> object:
        engine.forget_programs()
        return Template(text).render(data)

    return operation


def rows() -> list[tuple[str, str, str, Any, Callable[[], object]]]:
    """(title, Go's mode, Go's text, data, our operation)"""
    small, policy, items = Template(SMALL), Template(policy_text()), Template(ITEMS)
    raw, text = resolver_policy()
    context = {"ManagedClusterName": "cluster1", "ManagedClusterLabels": LABELS}
    hub = Struct({"ManagedClusterName": "cluster1", "ManagedClusterLabels": Map(LABELS, "map[string]string")})

    def resolved() -> object:
        return json.dumps(yaml.load(Template(text).render(hub), yaml.CSafeLoader))

    return [
        ("parse+execute small, ours without cache", "parse", SMALL, SMALL_DATA, uncached(SMALL, SMALL_DATA)),
        ("parse+execute small, ours with cache", "parse", SMALL, SMALL_DATA, lambda: Template(SMALL).render(SMALL_DATA)),
        ("  same, Go also making sprig's map", "full", SMALL, SMALL_DATA, lambda: Template(SMALL).render(SMALL_DATA)),
        ("execute small", "execute", SMALL, SMALL_DATA, lambda: small.render(SMALL_DATA)),
        ("execute 4 KB policy, 40 actions", "execute", policy_text(), POLICY_DATA, lambda: policy.render(POLICY_DATA)),
        ("execute range over 1,000 items", "execute", ITEMS, ITEMS_DATA, lambda: items.render(ITEMS_DATA)),
        ("4 KB policy: ResolveTemplate / our render", "resolve", raw, context, lambda: Template(text).render(hub)),
        ("4 KB policy: ResolveTemplate / render+YAML+JSON", "resolve", raw, context, resolved),
    ]


def run(short: bool = False) -> list[dict[str, Any]]:
    subprocess.run(["make", "-s", "-C", str(PEER)], check=True)
    where = subprocess.run(["make", "-s", "-C", str(PEER), "path"], check=True, capture_output=True, text=True)
    go = GoBench(Path(where.stdout.strip()))
    turns, seconds = (1, 0.02) if short else (5, 0.4)
    results = []
    try:
        for title, mode, text, data, operation in rows():
            ours = theirs = float("inf")
            for _ in range(turns):
                ours = min(ours, measure(operation, seconds))
                theirs = min(theirs, go(mode, text, data, seconds))
            results.append({"case": title, "ours_us": ours / 1000, "go_us": theirs / 1000, "ratio": theirs / ours})
    finally:
        go.close()
    return results


def main() -> None:
    print(f"{'case':<50}{'ours µs':>12}{'Go µs':>12}{'ours/Go speed':>16}")
    for row in run(short="--short" in sys.argv):
        print(f"{row['case']:<50}{row['ours_us']:>12.2f}{row['go_us']:>12.2f}{row['ratio']:>15.2f}x")


if __name__ == "__main__":
    main()

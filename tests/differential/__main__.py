"""Command line of the differential suite; see the package docstring."""

import argparse
import json
import sys
from pathlib import Path

from tests.differential import __doc__ as usage
from tests.differential import golden
from tests.differential.comparing import differences
from tests.differential.dsl import Case
from tests.differential.runner import run
from tests.support.planes import Cluster, ControlPlane, make, read_clusters


def selected(text: str) -> list[tuple[str, Case]]:
    return [(group, case) for group, cases in golden.groups().items() for case in cases if text in case.name or text == group]


def target(kind: str, kubeconfig: Path | None) -> tuple[Cluster, ControlPlane | None]:
    """A cluster that is already up, or a plane started for this command."""
    if kubeconfig:
        directory = kubeconfig.parent
        return read_clusters(kubeconfig, directory)["default"], None
    plane = make(kind)
    plane.start()
    return plane.cluster, plane


def main() -> int:
    parser = argparse.ArgumentParser(description=usage, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["list", "show", "diff", "record"])
    parser.add_argument("cases", nargs="?", default="", help="a part of the case's name, or a module of cases")
    parser.add_argument("--on", choices=["kube", "embedded"], default="kube", help="where `show` runs")
    parser.add_argument("--kubeconfig", type=Path, help="use a running cluster (its static users must exist)")
    arguments = parser.parse_args()
    chosen = selected(arguments.cases)
    if arguments.action == "list":
        for group, case in chosen:
            print(f"{group:16} {case.name}")
        print(f"{len(chosen)} cases")
        return 0
    kind = {"show": arguments.on, "diff": "embedded", "record": "kube"}[arguments.action]
    cluster, plane = target(kind, arguments.kubeconfig)
    failures = 0
    try:
        for group, case in chosen:
            try:
                records = run(case, cluster)
            except Exception as error:
                failures += 1
                print(f"FAILED {group}: {case.name}: {type(error).__name__}: {error}")
                continue
            if arguments.action == "show":
                print(json.dumps(records, indent=1, ensure_ascii=False))
            elif arguments.action == "record":
                answers = {**golden.load(group), case.name: records}
                golden.save(group, answers, [known.name for known in golden.groups()[group]])
            else:
                report = differences(case, golden.load(group).get(case.name, []), records)
                failures += bool(report)
                print(f"{'DIFFERS' if report else 'same   '} {group}: {case.name}")
                if report:
                    print(report)
    finally:
        if plane:
            plane.discard()
    print(f"{len(chosen)} cases, {failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

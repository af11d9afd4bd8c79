"""`python -m bench [AREA …] [--short] [--write]`: measure, print the tables, and with --write put them into docs/benchmarks.md."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from bench import (
    addons,
    apiserver,
    aws,
    caches,
    gateway,
    gotemplate,
    http_layer,
    installation,
    metrics,
    placement,
    policy,
    registration,
    report,
    simulation,
    templates,
    transport,
    wire,
    work,
)
from bench.report import Row

GOTEMPLATE_TEXT = """
The same template and data, alternately in Python and in Go; best of several rounds. The last two rows compare with
go-template-utils' ResolveTemplate.
"""


def template_rows(short: bool) -> list[Row]:
    return [Row(found["case"], "µs", found["ours_us"], found["go_us"], "less") for found in gotemplate.run(short)]


FULL_RUNS = "Full runs of comparisons and faults"
"""A section of the document that people write: what is too long for CI runs whole now and then."""

AREAS: dict[str, tuple[str, str, Callable[[bool], list[Row]]]] = {
    "installation": (installation.TITLE, installation.TEXT, lambda short: installation.run(short)),
    "apiserver": (apiserver.TITLE, apiserver.TEXT, lambda short: apiserver.run(short)),
    "caches": (caches.TITLE, caches.TEXT, lambda short: caches.run(short)),
    "registration": (registration.TITLE, registration.TEXT, lambda short: registration.run(short)),
    "aws": (aws.TITLE, aws.TEXT, lambda short: aws.run(short)),
    "simulation": (simulation.TITLE, simulation.TEXT, lambda short: simulation.run(short)),
    "work": (work.TITLE, work.TEXT, lambda short: work.run(short)),
    "placement": (placement.TITLE, placement.TEXT, lambda short: placement.run(short)),
    "addons": (addons.TITLE, addons.TEXT, lambda short: addons.run(short)),
    "transport": (transport.TITLE, transport.TEXT, lambda short: transport.run(short)),
    "gateway": (gateway.TITLE, gateway.TEXT, lambda short: gateway.run(short)),
    "wire": (wire.TITLE, wire.TEXT, lambda short: wire.run(short)),
    "http": (http_layer.TITLE, http_layer.TEXT, lambda short: http_layer.run(short)),
    "metrics": (metrics.TITLE, metrics.TEXT, lambda short: metrics.run(short)),
    "policy": (policy.TITLE, policy.TEXT, lambda short: policy.run(short)),
    "templates": (templates.TITLE, templates.TEXT, lambda short: templates.run(short)),
    "gotemplate": ("Go templates", GOTEMPLATE_TEXT, template_rows),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Ours and the peers side by side.")
    parser.add_argument("areas", nargs="*", metavar="AREA", help=f"{', '.join(AREAS)} (all when none is given)")
    parser.add_argument("--short", action="store_true", help="only see that everything runs; the figures mean little")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/benchmarks.md")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.areas if name not in AREAS]
    if unknown:
        parser.error(f"no such area: {', '.join(unknown)}; there are {', '.join(AREAS)}")
    if arguments.write and arguments.short:
        parser.error("--write needs a full run: leave out --short")
    sections = []
    for name in arguments.areas or AREAS:
        title, text, measure = AREAS[name]
        rows = measure(arguments.short)
        print(f"\n{title}\n{report.text_table(rows)}\n", flush=True)
        sections.append((title, text, rows))
    if arguments.write:
        report.write(sections, [*(title for title, _, _ in AREAS.values()), FULL_RUNS])
        print(f"written: {report.DOCUMENT}")
    missed = [row.title for _, _, rows in sections for row in rows if row.met is False]
    if missed and not arguments.short:
        print(f"targets missed: {'; '.join(missed)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

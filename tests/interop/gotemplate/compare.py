"""Runs generated templates in Go and in Python and reports where they differ.

    python -m tests.interop.gotemplate.compare SEED COUNT

prints one JSON line per difference and a last one with what was done; `test_differential.py` runs several at once.
"""

from __future__ import annotations

import gc
import json
import os
import re
import sys
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from muster.gotemplate import LimitError, Limits, Template, TemplateError
from tests.interop.gotemplate.grammar import Case, Grammar
from tests.interop.gotemplate.wire import Oracle, oracle_directory, to_wire

BATCH = 40
LIMITS = Limits(output_bytes=1 << 20, steps=100_000, seconds=20)


class Difference(NamedTuple):
    seed: int
    text: str
    request: dict[str, Any]
    go: str
    ours: str


def go_result(reply: dict[str, Any]) -> str:
    if "e" in reply:
        return "error: " + reply["e"]
    if "x" in reply:
        return "bytes: " + reply["x"]
    return "text: " + reply.get("o", "")


def our_result(case: Case) -> str:
    try:
        template = Template(
            case.text, delims=(case.left, case.right), sprig=not case.plain, missing_key=case.missing or "default",
            limits=LIMITS,
        )  # fmt: skip
        output = template.render_bytes(case.data)
    except LimitError as error:
        return "limit: " + str(error)
    except TemplateError as error:
        # Errors come from Go as JSON, in which bytes that are not UTF-8 are U+FFFD.
        return "error: " + re.sub("[\udc80-\udcff]", "�", str(error))
    try:
        return "text: " + output.decode()
    except UnicodeDecodeError:
        return "bytes: " + output.hex()


# Differences that docs/templates.md lists, each recognised by what Go says, or by what we say.
EXPLAINED = [
    # Go prints addresses of pointers and functions; since 1.26 its heap begins anywhere.
    re.compile(r"0x[0-9a-f]{10}", re.IGNORECASE),
    # Under a verb that is not for text, be it no letter at all, Go prints the private fields of times, an address among them.
    re.compile(r"%!.\(time\.Time=", re.IGNORECASE),
    # The depth of template calls is limited to less than Go's 100000.
    re.compile(r"exceeded maximum template depth"),
]


def explained(go: str, ours: str) -> bool:
    return any(pattern.search(go) or pattern.search(ours) for pattern in EXPLAINED)


def differences(oracle: Oracle, seed: int, count: int) -> Iterator[Difference]:
    """Compares `count` templates made from the seed."""
    grammar = Grammar(seed)
    done = 0
    while done < count:
        cases = [grammar.case() for _ in range(min(BATCH, count - done))]
        # The data goes on the wire first: templates may change it.
        requests = [
            {"t": case.text, "d": to_wire(case.data), "l": case.left, "r": case.right, "plain": case.plain,
             "missing": case.missing}
            for case in cases
        ]  # fmt: skip
        results = [our_result(case) for case in cases]
        # A template that goes beyond our limits may never end in Go, or end the process: a value that contains itself
        # overflows Go's stack when it is printed.
        asked = [at for at, ours in enumerate(results) if not ours.startswith("limit: ")]
        replies = oracle.ask(requests[at] for at in asked)
        for at, reply in zip(asked, replies, strict=True):
            if reply is None:
                continue
            done += 1
            go, ours = go_result(reply), results[at]
            if go != ours and not explained(go, ours):
                yield Difference(seed, cases[at].text, requests[at], go, ours)


def main() -> None:
    seed, count = int(sys.argv[1]), int(sys.argv[2])
    os.environ.setdefault("TZ", "UTC")
    time.tzset()
    # Every case makes and drops some thousand small objects; collecting rarely is a third faster.
    gc.set_threshold(200_000, 20, 20)
    oracle = Oracle(oracle_directory() / "oracle")
    found = 0
    for difference in differences(oracle, seed, count):
        found += 1
        print(json.dumps(difference._asdict()), flush=True)
    oracle.close()
    print(json.dumps({"seed": seed, "compared": count, "differences": found}), flush=True)


if __name__ == "__main__":
    main()

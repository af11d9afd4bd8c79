"""`python -m tests.fuzz --count 100000`: start an embedded server, fuzz it, report; ends with 1 if anything was wrong.
`python -m tests.fuzz cost` measures what growing requests cost instead."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path

from tests.fuzz.cost import session as cost
from tests.fuzz.session import FuzzSession
from tests.support.planes import EmbeddedPlane


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="?", choices=["requests", "cost"], default="requests")
    parser.add_argument("--match", default="", help="only growing requests with this in their names")
    parser.add_argument("--skip", type=int, default=0, help="leave out so many growing requests: where an earlier run ended")
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--directory", type=Path, help="keep state and logs here")
    arguments = parser.parse_args()
    if arguments.what == "cost":
        return cost.report(cost.run(arguments.match, arguments.skip))
    directory = arguments.directory or Path(tempfile.mkdtemp(prefix="muster-fuzz-"))
    plane = EmbeddedPlane(directory)
    plane.start()
    try:
        session = FuzzSession(plane, arguments.seed)
        began = time.monotonic()
        asyncio.run(session.run(arguments.count))
        took = time.monotonic() - began
    finally:
        plane.stop()
    print(f"seed {arguments.seed}: {session.verdict.summary()}; {took:.0f} s")
    print(f"RSS {session.warm_rss >> 20} MiB after warm-up, {session.final_rss >> 20} MiB at the end")
    print(f"slowest:\n{session.verdict.slowest_request[:600]}")
    problems = session.problems()
    for problem in problems:
        print(f"\n=== {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

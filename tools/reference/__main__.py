from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tools.reference.pages import stale, write


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.reference", description="Write the reference pages.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--check", action="store_true", help="Name the pages that are stale, and write nothing.")
    given = parser.parse_args(arguments)
    if not given.check:
        write(given.folder)
        return 0
    old = stale(given.folder)
    for name in old:
        print(f"{given.folder / name} is stale: run python -m tools.reference {given.folder}", file=sys.stderr)
    return 1 if old else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

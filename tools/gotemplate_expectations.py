"""Writes what Go makes of the cases in tests/unit/gotemplate/cases.py to expectations.json, with Go's version.

    python -m tools.gotemplate_expectations

Run it when cases change, or to see what a newer Go says: the difference shows in the file.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.interop.gotemplate.wire import PEER, Oracle, oracle_directory, to_wire
from tests.unit.gotemplate.cases import DATA, all_cases

TARGET = Path(__file__).parent.parent / "tests" / "unit" / "gotemplate" / "expectations.json"
BATCH = 40


def sprig_version() -> str:
    lines = (PEER / "go.mod").read_text().splitlines()
    return next(line.split()[-1] for line in lines if "Masterminds/sprig/v3" in line)


def main() -> None:
    binary = oracle_directory() / "oracle"
    version = subprocess.run([binary, "version"], check=True, capture_output=True, text=True).stdout.strip()
    oracle = Oracle(binary)
    cases = all_cases()
    stored: list[dict[str, Any]] = []
    for start in range(0, len(cases), BATCH):
        batch = cases[start : start + BATCH]
        requests = [
            {"t": case.text, "d": to_wire(DATA[case.data]), "l": case.left, "r": case.right, "plain": case.plain,
             "missing": case.missing}
            for case in batch
        ]  # fmt: skip
        for case, reply in zip(batch, oracle.ask(requests), strict=True):
            if reply is None:
                raise SystemExit(f"Go did not survive {case.text!r}")
            stored.append({"t": case.text, **reply})
    oracle.close()
    lines = ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in stored)
    head = json.dumps({"go": version, "sprig": sprig_version()})[:-1]
    TARGET.write_text(f'{head}, "cases": [\n{lines}\n]}}\n')
    print(f"{len(stored)} cases from {version}")


if __name__ == "__main__":
    main()

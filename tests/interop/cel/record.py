"""Asks the oracle all recorded questions again and rewrites the answers: `python -m tests.interop.cel.record`."""

from __future__ import annotations

import json

from tests.interop.cel.oracle import ask, versions
from tests.unit.cel.recorded import DIRECTORY, comparable


def main() -> None:
    for path in sorted(DIRECTORY.glob("*.json")):
        document = json.loads(path.read_text())
        cases = [case["expr"] if isinstance(case, dict) else case for case in document["cases"]]
        answers = ask({**document["shared"], "expr": expr} for expr in cases)
        document["recorded"] = versions()
        document["cases"] = [
            {"expr": expr, "answer": comparable(answer), "worst": answer.get("maxCost")}
            for expr, answer in zip(cases, answers, strict=True)
        ]
        head = {key: value for key, value in document.items() if key != "cases"}
        body = ",\n".join(f"    {json.dumps(case, ensure_ascii=False)}" for case in document["cases"])
        shown = json.dumps(head, indent=2, ensure_ascii=False)[:-2]
        path.write_text(f'{shown},\n  "cases": [\n{body}\n  ]\n}}\n')
        print(f"{path.name}: {len(cases)} answers")


if __name__ == "__main__":
    main()

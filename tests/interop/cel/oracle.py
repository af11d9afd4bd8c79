"""Talks to the CEL oracle built by `make -C peers/cel`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

PEER = Path(__file__).parents[3] / "peers" / "cel"


def binary() -> Path:
    found = subprocess.run(["make", "-s", "-C", str(PEER), "print-bin"], capture_output=True, text=True, check=True)
    return Path(found.stdout.strip())


def ask(questions: Iterable[dict[str, Any]], timeout: float = 60) -> list[dict[str, Any]]:
    """One answer per question, in order."""
    lines = "\n".join(json.dumps(question) for question in questions)
    done = subprocess.run([str(binary())], input=lines, capture_output=True, text=True, check=True, timeout=timeout)
    return [json.loads(line) for line in done.stdout.splitlines()]


def versions() -> str:
    """The modules the oracle is made of."""
    wanted = ("github.com/google/cel-go ", "k8s.io/apiserver ", "k8s.io/apiextensions-apiserver ")
    lines = (line.strip() for line in (PEER / "go.mod").read_text().splitlines())
    return ", ".join(line.split(" //")[0] for line in lines if line.startswith(wanted))

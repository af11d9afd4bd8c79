"""What Go's codecs wrote, recorded by `python -m tests.interop.cloudevents.record`: questions, and the bytes of their answers."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DIRECTORY = Path(__file__).parent


@dataclass(frozen=True)
class Golden:
    name: str
    recorded: str
    """By which version of OCM."""
    question: dict[str, Any]
    wire: bytes
    """Of a PublishRequest."""

    def __str__(self) -> str:
        return f"{self.recorded} {self.name}"


def load() -> list[Golden]:
    return [
        Golden(case["name"], path.stem, case["question"], base64.b64decode(case["wire"]))
        for path in sorted(DIRECTORY.glob("*.json"))
        for case in json.loads(path.read_text())
    ]

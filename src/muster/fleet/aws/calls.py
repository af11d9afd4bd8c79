"""The call log: who asked for what, and what came of it. No parameters but names of things, and no credential of any kind.

Tests count calls with it, and benchmarks; and from the rights that calls needed one learns which policy is enough. It holds the
last so many; `count` tells how many there were.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from muster.machinery.logs import get_logger

log = get_logger(__name__)
KEPT: Final = 100_000


@dataclass(frozen=True)
class CallRecord:
    time: datetime
    operation: str
    """With its service: iam:CreateRole."""
    account: str
    """Of the caller; empty where nobody is proved."""
    caller: str
    """Its ARN."""
    region: str
    result: str
    """OK, or the code of the refusal."""
    resource: str = ""
    """The ARN of what it was about; empty where nobody's rights were asked."""
    needed: tuple[str, ...] = ()
    """The rights that were asked of the caller's policies, each an action."""


class CallLog:
    def __init__(self, kept: int = KEPT) -> None:
        self._records: deque[CallRecord] = deque(maxlen=kept)
        self._counts: Counter[str] = Counter()

    def record(self, record: CallRecord) -> None:
        self._records.append(record)
        self._counts[record.operation] += 1
        log.debug("aws call", operation=record.operation, caller=record.caller, region=record.region, result=record.result)

    def __iter__(self) -> Iterator[CallRecord]:
        return iter(tuple(self._records))

    def __len__(self) -> int:
        return len(self._records)

    def count(self, operation: str = "") -> int:
        """Calls of this operation, or of all, since the log was cleared."""
        return self._counts[operation] if operation else self._counts.total()

    def clear(self) -> None:
        self._records.clear()
        self._counts.clear()

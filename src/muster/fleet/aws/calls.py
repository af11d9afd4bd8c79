"""The call log: caller, operation and result of each call; of parameters only names, and no credential of any kind.

Tests and benchmarks count calls with it; and the permissions that calls needed show which policy is sufficient. It keeps a limited
number of calls; `count` counts all.
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
    """The caller's account; empty without an authenticated caller."""
    caller: str
    """The caller's ARN."""
    region: str
    result: str
    """OK, or the error code."""
    resource: str = ""
    """The ARN of the resource; empty if no permission was checked."""
    needed: tuple[str, ...] = ()
    """The actions that were checked against the caller's policies."""


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

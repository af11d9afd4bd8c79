"""When an audit line says that something happened."""

import time
from datetime import UTC, datetime

import pytest

from muster.apiserver import audit


def test_a_line_has_the_time_to_the_microsecond() -> None:
    before, told, after = time.time_ns(), audit._micro_time(), time.time_ns()
    moment = datetime.strptime(told, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC)
    assert before // 1000 <= round(moment.timestamp() * 1e6) <= after // 1000


@pytest.mark.parametrize(
    ("nanoseconds", "told"),
    [
        (1_000_000_000_000_000_000, "2001-09-09T01:46:40.000000Z"),
        (1_000_000_000_000_001_999, "2001-09-09T01:46:40.000001Z"),
        (1_000_000_000_999_999_999, "2001-09-09T01:46:40.999999Z"),
        (1_000_000_001_000_000_000, "2001-09-09T01:46:41.000000Z"),
        (1_000_000_000_500_000_000, "2001-09-09T01:46:40.500000Z"),
    ],
)
def test_the_second_that_is_written_out_once_is_never_another_lines(
    monkeypatch: pytest.MonkeyPatch, nanoseconds: int, told: str
) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: nanoseconds)
    assert audit._micro_time() == told

"""A pytest plugin that writes down how every test ended, and that runs only the tests it is told.

    pytest -p tools.outcomes --outcomes FILE --only FILE

The record is for `tools.flaky`, which decides by it what runs again. Invariants: a test ended as its worst phase did; one that was
collected and did not end is in `missed`. Without a record pytest itself did not come to its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

PASSED, SKIPPED, FAILED = "passed", "skipped", "failed"
_WORSE = (PASSED, SKIPPED, FAILED)


class Record(msgspec.Struct):
    ended: dict[str, str]
    """By the test's name: passed, skipped or failed."""
    missed: list[str]
    unread: list[str]
    """Files that could not be collected."""


def read(path: Path) -> Record | None:
    return msgspec.json.decode(path.read_bytes(), type=Record) if path.exists() else None


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("outcomes")
    group.addoption("--outcomes", help="write there how every test ended")
    group.addoption("--only", help="run the tests that this file names, one per line, and no others")


def pytest_configure(config: pytest.Config) -> None:
    path = config.getoption("--outcomes")
    in_worker = hasattr(config, "workerinput")
    if path and not in_worker:
        config.pluginmanager.register(_Recorder(Path(path)))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    path = config.getoption("--only")
    if path:
        wanted = set(Path(path).read_text().split("\n"))
        items[:] = [item for item in items if item.nodeid in wanted]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    # Not before pytest has looked at xdist's modules: it complains about plugins that it did not import itself.
    from tools.scheduling import CrashProofScheduling

    return CrashProofScheduling(config, log) if config.getoption("dist") == "loadfile" else None


class _Recorder:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._expected: dict[str, None] = {}
        self._ended: dict[str, str] = {}
        self._unread: dict[str, None] = {}

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._unread[report.nodeid] = None

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._expected.update(dict.fromkeys(item.nodeid for item in session.items))

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: object, ids: Sequence[str]) -> None:
        self._expected.update(dict.fromkeys(ids))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.outcome == PASSED and report.when != "call":
            return
        before = self._ended.get(report.nodeid, PASSED)
        self._ended[report.nodeid] = max(before, report.outcome, key=_WORSE.index)

    def pytest_sessionfinish(self) -> None:
        missed = [name for name in self._expected if name not in self._ended]
        self._path.write_bytes(msgspec.json.encode(Record(self._ended, missed, list(self._unread))))

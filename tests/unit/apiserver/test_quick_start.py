"""A server is ready in a third of a second because it loads only what a start needs; the rest comes with its first use."""

import subprocess
import sys

LATER = ("structlog", "rich", "jwt", "asyncpg", "jsonschema")


def test_a_start_loads_no_library_that_only_later_requests_need() -> None:
    program = "import sys, muster.cli.apiserver, muster.apiserver.builtin.resources; print(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    loaded = set(done.stdout.split())
    assert "muster.apiserver.server" in loaded
    assert [name for name in LATER if name in loaded] == []


def test_the_first_log_line_is_written_as_logfmt() -> None:
    program = "from muster.machinery.logs import get_logger; get_logger('x').warning('it happened', why='a test')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert 'event="it happened"' in done.stderr
    assert 'why="a test"' in done.stderr
    assert "level=warning" in done.stderr


def test_debug_lines_are_written_only_when_asked_for() -> None:
    lines = ["from muster.machinery import logs", "log = logs.get_logger('x')", "log.debug('quiet')"]
    program = "\n".join([*lines, "logs.set_level(logs.DEBUG)", "log.debug('loud')"])
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert "quiet" not in done.stderr
    assert "loud" in done.stderr

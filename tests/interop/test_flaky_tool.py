"""`tools.flaky`: what failed once is run again, alone.

Small suites are run as others run theirs, in a process with workers; what counts is the exit code and what is printed.
"""

import os
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.timeout(300)
WORKERS = ("-n", "2", "--dist", "loadfile")
UNLUCKY = """
from pathlib import Path
import os
import time

import pytest

def unlucky(name="tried"):
    mark = Path(__file__ + "-" + name)
    tried = mark.exists()
    mark.touch()
    return not tried
"""
FAILS_ONCE = f"{UNLUCKY}\ndef test_unlucky():\n    assert not unlucky()\n"
WELL = "def test_well():\n    pass\n"
WRONG = "def test_wrong():\n    assert False\n"
ODD = ["a b", "a::b", "[x]", "ä\n", "\u2028", "*", "@group", "-n 2", "'\"`$HOME", "/x.py", ""]


def outcome(directory: Path, files: Mapping[str, str], *more: str) -> tuple[int, str]:
    """The tool's exit code and all that it and pytest printed."""
    for name, text in files.items():
        (directory / f"test_{name}.py").write_text(text)
    # There pytest repeats in its summary what it has told already.
    environment = {name: value for name, value in os.environ.items() if name not in ("CI", "BUILD_NUMBER")}
    command = [sys.executable, "-m", "tools.flaky", "-p", "xdist", "-p", "pytest_timeout", "-p", "no:cacheprovider", *more]
    done = subprocess.run(
        [*command, f"--rootdir={directory}", str(directory)],
        env={**environment, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=280,
        cwd=Path(__file__).parents[2],
    )
    return done.returncode, done.stdout


class TestBadLuck:
    """A suite in which everything that fails passes when it is alone."""

    @pytest.fixture(scope="class")
    @classmethod
    def seen(cls, tmp_path_factory: pytest.TempPathFactory) -> tuple[int, str]:
        files = {
            "plain": FAILS_ONCE + WELL,
            "ending": f"{UNLUCKY}\n@pytest.fixture\ndef server():\n    yield\n    assert not unlucky()\n"
            "def test_with(server):\n    pass\n",
            "shared": f"{UNLUCKY}\n@pytest.fixture(scope='module')\ndef server():\n    assert not unlucky()\n"
            "@pytest.mark.parametrize('number', range(30))\ndef test_with(server, number):\n    pass\n",
            "slow": f"{UNLUCKY}\n@pytest.mark.timeout(3, method='signal')\ndef test_slow():\n    time.sleep(60 * unlucky())\n",
            "stuck": f"{UNLUCKY}\n@pytest.mark.timeout(3, method='thread')\ndef test_stuck():\n    time.sleep(60 * unlucky())\n",
            "crash": f"{UNLUCKY}\ndef test_crash():\n    unlucky() and os._exit(3)\n",
            "odd": f"{UNLUCKY}\n@pytest.mark.parametrize('odd', {ODD!r})\ndef test_odd(odd):\n"
            "    assert not unlucky(odd.encode().hex())\n",
        }
        return outcome(tmp_path_factory.mktemp("unlucky"), files, *WORKERS)

    def test_is_green(self, seen: tuple[int, str]) -> None:
        code, printed = seen
        assert code == 0, printed
        assert "failed twice" not in printed

    @pytest.mark.parametrize(
        ("file", "test"), [("plain", "unlucky"), ("ending", "with"), ("slow", "slow"), ("stuck", "stuck"), ("crash", "crash")]
    )
    def test_is_printed_with_its_name(self, seen: tuple[int, str], file: str, test: str) -> None:
        assert f"flaky: test_{file}.py::test_{test}\n" in seen[1]

    def test_of_others_is_not(self, seen: tuple[int, str]) -> None:
        assert "test_well" not in seen[1]

    def test_of_what_a_file_shares_is_printed_for_each_of_its_tests(self, seen: tuple[int, str]) -> None:
        assert seen[1].count("flaky: test_shared.py::test_with[") == 30

    def test_may_befall_parameters_of_any_name(self, seen: tuple[int, str]) -> None:
        assert seen[1].count("flaky: test_odd.py::test_odd[") == len(ODD)

    def test_of_a_worker_that_ends_is_told_once(self, seen: tuple[int, str]) -> None:
        assert seen[1].count("crashed while running 'test_crash.py::test_crash'") == 1


class TestFaults:
    """A suite in which not everything passes when it is alone."""

    @pytest.fixture(scope="class")
    @classmethod
    def seen(cls, tmp_path_factory: pytest.TempPathFactory) -> tuple[int, str]:
        files = {
            "plain": FAILS_ONCE + WRONG,
            "fixture": f"{UNLUCKY}\n@pytest.fixture\ndef server():\n    raise OSError\ndef test_with(server):\n    pass\n",
            "skipping": f"{UNLUCKY}\ndef test_skipping():\n    unlucky() or pytest.skip('not again')\n    raise AssertionError\n",
            "crash": f"{UNLUCKY}\ndef test_crash():\n    os._exit(3)\ndef test_behind():\n    pass\n",
        }
        return outcome(tmp_path_factory.mktemp("faulty"), files, *WORKERS)

    def test_are_red(self, seen: tuple[int, str]) -> None:
        assert seen[0] == 1

    @pytest.mark.parametrize(("file", "test"), [("plain", "wrong"), ("fixture", "with"), ("crash", "crash")])
    def test_are_printed_as_failed_twice(self, seen: tuple[int, str], file: str, test: str) -> None:
        assert f"failed twice: test_{file}.py::test_{test}\n" in seen[1]

    def test_are_told_from_bad_luck(self, seen: tuple[int, str]) -> None:
        assert "flaky: test_plain.py::test_unlucky\n" in seen[1]

    def test_that_are_skipped_when_they_run_again_have_not_passed(self, seen: tuple[int, str]) -> None:
        assert "failed, then skipped: test_skipping.py::test_skipping\n" in seen[1]

    def test_that_end_their_worker_do_so_once_and_hide_nothing_behind_them(self, seen: tuple[int, str]) -> None:
        assert "test_crash.py::test_behind" not in seen[1]
        assert " 1 passed" in seen[1].partition("run again, alone")[0]


def test_a_suite_in_which_all_is_well_runs_once(tmp_path: Path) -> None:
    code, printed = outcome(tmp_path, {"well": WELL})
    assert code == 0
    assert printed.count("1 passed") == 1


def test_failures_in_many_files_are_no_bad_luck(tmp_path: Path) -> None:
    code, printed = outcome(tmp_path, {f"file{number}": WRONG for number in range(11)})
    assert code == 1
    assert "none is run again" in printed


def test_what_fails_again_often_enough_ends_the_second_run(tmp_path: Path) -> None:
    many = "import pytest\n@pytest.mark.parametrize('number', range(40))\ndef test_wrong(number):\n    assert False\n"
    code, printed = outcome(tmp_path, {"many": many})
    assert code != 0
    assert 10 <= printed.count("\nfailed twice: ") < 40
    assert "\nfailed, and did not come to run again: test_many.py::test_wrong[" in printed


@pytest.mark.parametrize("more", [(), WORKERS])
def test_a_file_that_cannot_be_read_is_red_at_once(tmp_path: Path, more: tuple[str, ...]) -> None:
    code, printed = outcome(tmp_path, {"unread": "import nothing_of_that_name\n", "plain": FAILS_ONCE}, *more)
    assert code not in (0, 5)
    assert "run again" not in printed


def test_a_suite_without_tests_is_not_green(tmp_path: Path) -> None:
    assert outcome(tmp_path, {"empty": ""})[0] == 5


def test_wrong_arguments_are_red(tmp_path: Path) -> None:
    assert outcome(tmp_path, {"well": WELL}, "--no-such-option")[0] == 4


def test_a_process_that_ends_in_the_middle_is_red_whatever_its_exit_code(tmp_path: Path) -> None:
    code, printed = outcome(tmp_path, {"crash": "import os\ndef test_crash():\n    os._exit(0)\n"})
    assert code != 0
    assert "flaky" not in printed


class DeadWorker:
    """It has ended, and nobody has noticed."""

    shutting_down = False

    def send_runtest_some(self, indices: list[int]) -> None:
        raise OSError("cannot send (already closed?)")


def test_what_is_given_to_a_worker_that_has_just_ended_is_given_away_with_the_rest() -> None:
    from tools.scheduling import CrashProofScheduling

    node: Any = DeadWorker()
    scheduling = CrashProofScheduling.__new__(CrashProofScheduling)
    scheduling.workqueue = OrderedDict({"b.py": {"b.py::test": False}})
    scheduling.assigned_work = {node: OrderedDict({"a.py": {"a.py::test_crash": False}})}
    scheduling.registered_collections = {node: ["a.py::test_crash", "b.py::test"]}
    scheduling._assign_work_unit(node)
    assert scheduling.remove_node(node) == "a.py::test_crash"
    assert scheduling.workqueue == {"b.py": {"b.py::test": False}}

"""`tools.flaky`: what failed once is run again, alone."""

from pathlib import Path

import pytest
from tools import flaky

UNLUCKY = """
from pathlib import Path

def test_unlucky():
    mark = Path(__file__).with_name("tried")
    tried = mark.exists()
    mark.touch()
    assert tried

def test_well():
    pass
"""


def _run(directory: Path, text: str, capfd: pytest.CaptureFixture[str], *more: str) -> tuple[int, str]:
    (directory / "test_suite.py").write_text(text)
    code = flaky.run([*more, f"--rootdir={directory}", str(directory / "test_suite.py")])
    return code, capfd.readouterr().out


def test_a_test_that_passes_alone_is_green_and_named(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, printed = _run(tmp_path, UNLUCKY, capfd, "-n", "2", "--dist", "loadfile")
    assert code == 0
    assert "flaky: test_suite.py::test_unlucky" in printed
    assert "flaky: test_suite.py::test_well" not in printed


def test_a_test_that_fails_twice_is_red(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, printed = _run(tmp_path, f"{UNLUCKY}\ndef test_wrong():\n    assert False\n", capfd)
    assert code == 1
    assert "failed twice: test_suite.py::test_wrong" in printed
    assert "flaky: test_suite.py::test_unlucky" in printed


def test_a_fixture_that_fails_counts(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    broken = "import pytest\n@pytest.fixture\ndef server():\n    raise OSError\ndef test_with(server):\n    pass\n"
    code, printed = _run(tmp_path, broken, capfd)
    assert code == 1
    assert "failed twice: test_suite.py::test_with" in printed


def test_many_failures_are_no_bad_luck(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    many = "import pytest\n@pytest.mark.parametrize('n', range(11))\ndef test_wrong(n):\n    assert False\n"
    code, printed = _run(tmp_path, many, capfd)
    assert code == 1
    assert "none is run again" in printed


def test_a_file_that_cannot_be_read_is_red_at_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, printed = _run(tmp_path, "import nothing_of_that_name\n", capfd)
    assert code not in (0, 5)
    assert "run again" not in printed


def test_a_suite_without_tests_is_not_green(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, _ = _run(tmp_path, "", capfd)
    assert code == 5

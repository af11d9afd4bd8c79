from itertools import pairwise
from pathlib import Path

from tests.support import slowest_first


def test_every_file_that_is_to_come_first_is_there() -> None:
    assert not slowest_first.missing()


def test_a_file_that_is_not_named_comes_after_all_that_are() -> None:
    assert slowest_first.seconds(Path(__file__)) < min(slowest_first.SECONDS.values())
    assert slowest_first.seconds(Path("elsewhere/test_it.py")) == 0


def test_files_that_share_planes_come_together() -> None:
    tests = Path(slowest_first.__file__).parents[1]
    files = sorted(tests.glob("e2e/**/test_*.py"), key=slowest_first.turn)
    folders = [file.parent for file in files if file.parent.relative_to(tests).as_posix() in slowest_first.SHARING]
    assert files[: len(folders)] == [file for file in files if file.parent in folders]
    assert sum(before != after for before, after in pairwise(folders)) == len(slowest_first.SHARING) - 1

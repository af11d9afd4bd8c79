from pathlib import Path

from tests.support import slowest_first


def test_every_file_that_is_to_come_first_is_there() -> None:
    assert not slowest_first.missing()


def test_a_file_that_is_not_named_comes_after_all_that_are() -> None:
    assert slowest_first.seconds(Path(__file__)) < min(slowest_first.SECONDS.values())
    assert slowest_first.seconds(Path("elsewhere/test_it.py")) == 0

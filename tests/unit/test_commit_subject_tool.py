"""`tools.commit_subject`: which subjects of commits pass, and what is said of the others."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tools.commit_subject import LIMIT, main, problems, uncommented

ROOMS = {"work", "http", "tests"}
Commit = Callable[..., None]


@pytest.mark.parametrize(
    "message",
    [
        "work: say why a manifest waits",
        "work: say why a manifest waits\n\nNobody could tell.\n",
        "tests: " + "ä" * (LIMIT - len("tests: ")),
        "http: keep a line: of two",
    ],
)
def test_a_room_and_a_short_line_pass(message: str) -> None:
    assert list(problems(message, ROOMS)) == []


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("", "no subject"),
        ("\n \n", "no subject"),
        ("Say why a manifest waits", "starts with no room"),
        ("wrok: say why", "one of http, tests, work"),
        ("Work: say why", "starts with no room"),
        (" work: say why", "starts with no room"),
        ('Revert "work: say why"', "starts with no room"),
        ("work:say why", "nothing to read"),
        ("work: ", "nothing to read"),
        ("work: " + "a" * (LIMIT - 5), f"it has {LIMIT + 1} characters"),
        ("work: say why\nand when\n", "goes on in the next line"),
    ],
)
def test_what_is_wrong_is_said_with_the_remedy(message: str, said: str) -> None:
    (found,) = problems(message, ROOMS)
    assert said in found
    assert ": " in found


def test_all_that_is_wrong_is_said_at_once() -> None:
    assert len(list(problems("a" * 80 + "\nb", ROOMS))) == 3


def test_what_git_writes_for_the_editor_is_no_part_of_the_message() -> None:
    scissors = "# ------------------------ >8 ------------------------\n# below\ndiff --git a/x b/x\n"
    assert uncommented(f"\n# Please enter the message.\nwork: a\n\nWhy.\n# On branch main\n{scissors}") == "work: a\n\nWhy."


@pytest.fixture
def commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Commit:
    """Commits in a new repository, with these packages."""
    monkeypatch.chdir(tmp_path)

    def git(*words: str) -> None:
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@example.com", *words], check=True, capture_output=True)

    def make(message: str, *packages: str) -> None:
        git("rm", "-rq", "--ignore-unmatch", "src")
        for package in packages:
            file = tmp_path / "src" / "muster" / package / "__init__.py"
            file.parent.mkdir(parents=True)
            file.touch()
        git("add", "-A")
        git("commit", "-q", "--no-verify", "--allow-empty", "-m", message)

    git("init", "-q", "-b", "main")
    return make


def test_a_range_is_judged_by_the_rooms_that_there_were(commit: Commit, capsys: pytest.CaptureFixture[str]) -> None:
    commit("As it was before the rule", "old")
    commit("old: still here", "old")
    commit("old: move away", "new")
    commit("new: arrived", "new")
    commit("old: long gone", "new")
    assert main(["--range", "main~4..main~1"]) == 0
    assert main(["--range", "main~4..main"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "'old: long gone': it starts with no room" in line
    assert main(["--range", "main"]) == 1
    assert "As it was before the rule" in capsys.readouterr().err


def test_a_message_is_judged_by_the_rooms_that_there_are_or_were(
    commit: Commit, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    commit("docs: begin", "old")
    (tmp_path / "src" / "muster" / "new").mkdir()
    (tmp_path / "src" / "muster" / "new" / "__init__.py").touch()
    file = tmp_path / "message"
    for subject, code in (("old: go", 0), ("new: come", 0), ("none: be", 1), ("fixup! old: go", 0), ("Merge branch 'x'", 0)):
        file.write_text(f"{subject}\n# a comment\n")
        assert main([str(file)]) == code, subject
    assert "'none: be'" in capsys.readouterr().err


def test_what_is_not_there_is_told_from_what_is_wrong(commit: Commit, capsys: pytest.CaptureFixture[str]) -> None:
    commit("docs: begin", "old")
    assert main(["--range", "nowhere..main"]) == 2
    assert "nowhere" in capsys.readouterr().err
    assert main(["no-such-file"]) == 2
    assert "no-such-file" in capsys.readouterr().err
    for wrong in ([], ["file", "--range", "a..b"]):
        with pytest.raises(SystemExit):
            main(wrong)

"""The image's recipe builds on a base that is named by digest, and on no other."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

DEPLOY = Path(__file__).parents[2] / "deploy"
DIGEST = "sha256:" + "0123456789abcdef" * 4


def check(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["sh", str(DEPLOY / "check-base.sh"), *words], capture_output=True, text=True, timeout=20)


@pytest.mark.parametrize("name", ["python", "python:3.12-slim", "example.test:5000/team/python_3.12", "localhost/base"])
def test_a_base_with_a_digest_is_taken(name: str) -> None:
    done = check(f"{name}@{DIGEST}")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "base",
    [
        "",
        "python",
        "python:3.12-slim",
        "python:latest",
        f"@{DIGEST}",
        DIGEST,
        f"python@{DIGEST[:-1]}",
        f"python@{DIGEST}0",
        f"python@{DIGEST.upper()}",
        f"python@{DIGEST.replace('f', 'g')}",
        f"python@{DIGEST.replace('sha256', 'md5')}",
        f"python@{DIGEST}@{DIGEST}",
        f"python@{DIGEST} AS other",
        f"python $(id)@{DIGEST}",
        f"python\n@{DIGEST}",
        "python@sha256:",
        f"python@{DIGEST}\n",
    ],
)
def test_any_other_is_refused_and_told_what_is_expected(base: str) -> None:
    done = check(base)
    assert done.returncode == 1
    assert "expected NAME@sha256:<64 hexadecimal digits>" in done.stderr
    assert "--build-arg PYTHON=" in done.stderr


def test_nothing_at_all_is_refused() -> None:
    assert check().returncode == 1


def test_the_recipe_has_no_base_of_its_own_and_checks_the_given_one_before_it_does_anything() -> None:
    text = re.sub(r"\\\n", " ", (DEPLOY / "Containerfile").read_text())
    steps = [line.split(maxsplit=1) for line in text.splitlines() if line and not line.startswith("#")]
    assert steps[0] == ["ARG", "PYTHON"], "without a default"
    assert {words.split()[0] for step, words in steps if step == "FROM"} == {"${PYTHON}"}
    assert next(words for step, words in steps if step == "RUN") == 'sh check-base.sh "${PYTHON}"'
    assert ["ARG", "PYTHON"] in steps[2:4], "seen by the stage that checks"
    assert any("--from=build" in words for step, words in steps), "the image needs the stage that checks"

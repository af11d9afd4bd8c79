"""yaml.v3 and ours agree on generated values and texts: what is written, what is read, and the text of every error.

A run draws the same ones each time. `YAML_FUZZ_SEED` draws others and `YAML_FUZZ_COUNT` more of them; a failure names the seed.
Both readers of ours are compared: the quick one as `load` uses it, and the real parser for every text.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

from muster.gotemplate.golang.json import marshal
from muster.gotemplate.golang.yaml import dump, load
from muster.gotemplate.golang.yaml.reader import load_by_the_book
from muster.machinery.golang.errors import GoError
from tests.interop.policy.accepted_differences import FAILED, YAML
from tests.interop.policy.comparison import Outcome, compare
from tests.interop.policy.yaml_documents import Documents

COUNT = int(os.environ.get("YAML_FUZZ_COUNT", "4000"))
SEED = int(os.environ.get("YAML_FUZZ_SEED", "20261118"))
MOST_EXCUSED = 0.002


def result_of(operation: Callable[[], str]) -> str:
    try:
        return operation()
    except GoError as error:
        return f"{FAILED}{error}"


def check(outcome: Outcome) -> None:
    print(outcome)
    assert outcome.compared == COUNT
    assert not outcome.different, f"YAML_FUZZ_SEED={SEED}: {outcome}"
    assert outcome.excused.total() <= 1 + COUNT * MOST_EXCUSED, str(outcome)
    assert outcome.compared - outcome.failed >= COUNT // 5, "most texts are errors: the generator has gone astray"


@pytest.mark.timeout(0)
def test_values_are_written_as_yaml_v3_writes_them() -> None:
    documents = Documents(SEED)
    texts = [documents.json() for _ in range(COUNT)]
    check(compare([(text, {"convert": text}) for text in texts], lambda at: result_of(lambda: dump(load(texts[at]))), YAML))


@pytest.mark.timeout(0)
@pytest.mark.parametrize("read", [load, load_by_the_book])
def test_texts_are_read_as_yaml_v3_reads_them(read: Callable[[str], Any]) -> None:
    documents = Documents(SEED + 1)
    texts = [documents.text() for _ in range(COUNT)]
    check(compare([(text, {"load": text}) for text in texts], lambda at: result_of(lambda: marshal(read(texts[at]))), YAML))

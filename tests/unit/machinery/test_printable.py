"""Text of others on a terminal: nothing in it acts, nothing in it hides."""

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.kube import yaml
from muster.machinery.printable import is_printable, one_line, printable, printable_json

HOSTILE = {
    "clears the screen": ("\x1b[2J", "\\x1b[2J"),
    "sets a title": ("\x1b]0;root\x07", "\\x1b]0;root\\x07"),
    "begins a sequence in one character": ("\x9b31m", "\\x9b31m"),
    "goes back over what was said": ("good\rbad\x08", "good\\x0dbad\\x08"),
    "reads the other way": ("\u202egpj.exe\u2066", "\\u202egpj.exe\\u2066"),
    "has no width": ("adm\u200bin\ufeff", "adm\\u200bin\\ufeff"),
    "breaks the line unseen": ("a\u2028b\x85c", "a\\u2028b\\x85c"),
    "is a tag": ("a\U000e0041", "a\\U000e0041"),
    "is half a character": ("\udc80", "\\udc80"),
    "ends a string": ("\x00\x7f", "\\x00\\x7f"),
}


@pytest.mark.parametrize(("text", "shown"), HOSTILE.values(), ids=HOSTILE)
def test_what_would_act_or_hide_is_shown_as_an_escape(text: str, shown: str) -> None:
    assert printable(text) == shown
    assert not is_printable(text)


def test_ordinary_text_of_any_script_stays_as_it_is() -> None:
    text = "größer: 你好, مرحبا, नमस्ते 🚀 → \\x1b is written so\n\tand goes on"
    assert printable(text) == text


def test_a_cell_is_one_line() -> None:
    assert one_line("a\n\tb\x1b") == "a\\n\\tb\\x1b"


UNSEEN = {"Cc", "Cs", "Zl", "Zp"}
TURNING = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
WORDS = st.text(st.characters(exclude_categories=["Cs"]))


@given(st.text())
def test_no_control_character_is_left_and_nothing_more_is_to_be_done(text: str) -> None:
    shown = printable(text)
    assert not any(unicodedata.category(char) in UNSEEN for char in shown if char not in "\n\t")
    assert not any(unicodedata.bidirectional(char) in TURNING for char in shown)
    assert printable(shown) == shown


@given(st.recursive(WORDS, lambda inner: st.dictionaries(WORDS, inner), max_leaves=5))
def test_json_and_yaml_mean_the_same_and_are_printable(value: object) -> None:
    as_json = printable_json(json.dumps(value, ensure_ascii=False))
    assert is_printable(as_json)
    assert json.loads(as_json) == value
    as_yaml = yaml.dump(value, ascii_only=True)
    assert is_printable(as_yaml)
    assert yaml.load(as_yaml) == value

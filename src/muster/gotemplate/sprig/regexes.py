"""sprig's regular expressions. An invalid pattern is an error, except in `regexMatch`, which returns false."""

from __future__ import annotations

from muster.gotemplate.golang import regexp
from muster.gotemplate.limits import charge_size
from muster.gotemplate.signature import FuncTable
from muster.gotemplate.values import Slice, nil_slice
from muster.machinery.golang import quoting
from muster.machinery.golang.errors import GoError

REGEXES = FuncTable()
_STRINGS = "[]string"


def _panicking(pattern: str) -> regexp.Regexp:
    """`regexp.MustCompile`, whose panic contains the function's name."""
    try:
        return regexp.compile(pattern)
    except GoError as error:
        shown = f"`{pattern}`" if quoting.can_backquote(pattern) else quoting.quote(pattern)
        raise GoError(f"regexp: Compile({shown}): {error}") from None


def _sized(text: str) -> str:
    charge_size(len(text))
    return text


def _slice(found: list[str] | None) -> Slice:
    return nil_slice(_STRINGS) if found is None else Slice(found, _STRINGS)


@REGEXES.add("regexMatch", "string, string", "bool")
def regex_match(pattern: str, text: str) -> bool:
    try:
        return regexp.compile(pattern).matches(text)
    except GoError:
        return False


@REGEXES.add("mustRegexMatch", "string, string", "bool")
def must_regex_match(pattern: str, text: str) -> bool:
    return regexp.compile(pattern).matches(text)


@REGEXES.add("regexFindAll", "string, string, int", _STRINGS)
def regex_find_all(pattern: str, text: str, count: int) -> Slice:
    return _slice(_panicking(pattern).find_all(text, count))


@REGEXES.add("mustRegexFindAll", "string, string, int", _STRINGS)
def must_regex_find_all(pattern: str, text: str, count: int) -> Slice:
    return _slice(regexp.compile(pattern).find_all(text, count))


@REGEXES.add("regexFind", "string, string", "string")
def regex_find(pattern: str, text: str) -> str:
    return _panicking(pattern).find(text)


@REGEXES.add("mustRegexFind", "string, string", "string")
def must_regex_find(pattern: str, text: str) -> str:
    return regexp.compile(pattern).find(text)


@REGEXES.add("regexReplaceAll", "string, string, string", "string")
def regex_replace_all(pattern: str, text: str, replacement: str) -> str:
    return _sized(_panicking(pattern).replace(text, replacement))


@REGEXES.add("mustRegexReplaceAll", "string, string, string", "string")
def must_regex_replace_all(pattern: str, text: str, replacement: str) -> str:
    return _sized(regexp.compile(pattern).replace(text, replacement))


@REGEXES.add("regexReplaceAllLiteral", "string, string, string", "string")
def regex_replace_all_literal(pattern: str, text: str, replacement: str) -> str:
    return _sized(_panicking(pattern).replace_literal(text, replacement))


@REGEXES.add("mustRegexReplaceAllLiteral", "string, string, string", "string")
def must_regex_replace_all_literal(pattern: str, text: str, replacement: str) -> str:
    return _sized(regexp.compile(pattern).replace_literal(text, replacement))


@REGEXES.add("regexSplit", "string, string, int", _STRINGS)
def regex_split(pattern: str, text: str, count: int) -> Slice:
    return _slice(_panicking(pattern).split(text, count))


@REGEXES.add("mustRegexSplit", "string, string, int", _STRINGS)
def must_regex_split(pattern: str, text: str, count: int) -> Slice:
    return _slice(regexp.compile(pattern).split(text, count))


@REGEXES.add("regexQuoteMeta", "string", "string")
def regex_quote_meta(text: str) -> str:
    return regexp.quote_meta(text)

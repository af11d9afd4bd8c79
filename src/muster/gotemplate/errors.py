"""The errors of the template engine.

Every failure for callers is a `TemplateError`; its text is Go's, and its fields have the position. There are three kinds: the text
does not parse, an execution failed, or an execution exceeded its limits. The two exceptions at the end are internal: helpers raise
them, and the engine turns them into an `ExecError` with a position (see `template.py`). A template function reports an error by
raising `machinery.golang.errors.GoError`; the engine adds the prefix `error calling <name>: `.
"""

from __future__ import annotations


class TemplateError(Exception):
    """A template that cannot be parsed or executed; `str()` returns Go's full text."""

    def __init__(self, text: str, *, message: str, name: str = "", line: int = 0, column: int | None = None) -> None:
        super().__init__(text)
        self.message = message
        """The reason without the position."""
        self.name = name
        """The name of the template with the error."""
        self.line = line
        """1-based line in the template text; 0 if unknown."""
        self.column = column
        """0-based byte offset in the line, as Go counts; parse errors have none."""


class ParseError(TemplateError):
    """The template text is invalid."""


class ExecError(TemplateError):
    """Executing the template failed; `node` is the source of the part that failed, `__cause__` the reason if any."""

    def __init__(
        self, text: str, *, message: str, name: str = "", line: int = 0, column: int | None = None, node: str = "",
        function: str = "", shows_value: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(text, message=message, name=name, line=line, column=column)
        self.node = node
        self.function = function
        """The function that failed, if one did."""
        self.shows_value = shows_value
        """Whether the message may contain values that the template processed, not only types and its own source."""


class LimitError(ExecError):
    """The execution exceeded one of its `Limits`."""


class EvalFailure(Exception):
    """An evaluation rule was violated (wrong type, missing field…); has the reason only.

    `{node}` in the reason is replaced by the source of the failing node, for helpers that do not know it.
    """

    def __init__(self, reason: str, *, names_node: bool = False, shows_value: bool = False) -> None:
        super().__init__(reason)
        self.names_node = names_node
        self.shows_value = shows_value


class LimitExceeded(Exception):
    """A limit was reached inside a helper; becomes a `LimitError`."""

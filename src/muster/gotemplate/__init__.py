"""Go's text/template and the sprig functions, in Python.

    from muster.gotemplate import Template

    Template("{{ range .names }}{{ . | upper }} {{ end }}").render({"names": ["a", "b"]})

The output, and the text of every error, is that of Go. `docs/templates.md` describes the API, the mapping of types, the limits, and
the remaining differences.
"""

from muster.gotemplate.errors import ExecError, LimitError, ParseError, TemplateError
from muster.gotemplate.limits import Limits
from muster.gotemplate.prefetch import Call
from muster.gotemplate.signature import Func
from muster.gotemplate.template import Template, parse
from muster.machinery.golang.errors import GoError

__all__ = [
    "Call",
    "ExecError",
    "Func",
    "GoError",
    "LimitError",
    "Limits",
    "ParseError",
    "Template",
    "TemplateError",
    "parse",
]

"""The functions of sprig 3.3, each with its Go signature, in one table.

`env` and `expandenv` are left out, as in upstream's allow list: a template must not read the controller's environment.
"""

from __future__ import annotations

from muster.gotemplate.signature import Func
from muster.gotemplate.sprig.certificates import CERTIFICATES
from muster.gotemplate.sprig.dates import DATES
from muster.gotemplate.sprig.dicts import DICTS
from muster.gotemplate.sprig.emptiness import DEFAULTS
from muster.gotemplate.sprig.encodings import ENCODINGS
from muster.gotemplate.sprig.lists import LISTS
from muster.gotemplate.sprig.numbers import NUMBERS
from muster.gotemplate.sprig.passwords import PASSWORDS
from muster.gotemplate.sprig.reflection import REFLECTION
from muster.gotemplate.sprig.regexes import REGEXES
from muster.gotemplate.sprig.text import TEXT
from muster.gotemplate.sprig.versions import VERSIONS
from muster.gotemplate.sprig.web import WEB
from muster.gotemplate.sprig.words import WORDS

SPRIG: dict[str, Func] = {
    **TEXT, **WORDS, **LISTS, **DICTS, **NUMBERS, **DATES, **ENCODINGS, **REGEXES, **VERSIONS, **WEB, **REFLECTION,
    **DEFAULTS, **PASSWORDS, **CERTIFICATES,
}  # fmt: skip

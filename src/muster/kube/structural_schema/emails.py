"""Whether a text is one mail address, as the schema format `email` demands (RFC 5322 as Go's net/mail reads it).

Accepted are a bare address (`a@b.example`), an address with a display name (`"A. B." <a@b.example>`), quoted local parts, domain
literals and a trailing comment. Lists and groups are not one address.
"""

from __future__ import annotations

from typing import Final

from muster.kube.structural_schema.patterns import matcher

_ATOM: Final = r"[A-Za-z0-9!#$%&'*+\-/=?^_`{|}~\x{80}-\x{10FFFF}]+"
_QUOTED: Final = r'"(?:[ \t!#-\[\]-~\x{80}-\x{10FFFF}]|\\[!-~ \t\x{80}-\x{10FFFF}])*"'
_DOT_ATOM: Final = rf"{_ATOM}(?:\.{_ATOM})*"
_DOMAIN: Final = rf"(?:{_DOT_ATOM}|\[[!-Z^-~ \t]*\])"
_ADDRESS: Final = rf"(?:{_DOT_ATOM}|{_QUOTED})[ \t]*@[ \t]*{_DOMAIN}"
_WORD: Final = rf"(?:{_ATOM}|{_QUOTED})"
_PHRASE: Final = rf"{_WORD}(?:[ \t]*(?:{_WORD}|\.))*"
_COMMENT: Final = r"(?:[ \t]*\([^()\\]*\))*"
is_email: Final = matcher(rf"^[ \t]*(?:{_ADDRESS}|(?:{_PHRASE})?[ \t]*<[ \t]*{_ADDRESS}[ \t]*>){_COMMENT}[ \t]*$")

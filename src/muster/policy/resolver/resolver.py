"""The resolver: from a document with templates to the document that is meant.

The steps are go-template-utils': JSON becomes YAML, encrypted values are decrypted, the two passes rewrite the YAML, the template
runs, its output is read as YAML and becomes JSON. A resolver has no state but what it remembers of documents; everything that
belongs to one run is in the options and the source.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import orjson

from muster.gotemplate import ExecError, GoError, LimitError, Limits, ParseError, Template
from muster.gotemplate.limits import DEFAULT_LIMITS
from muster.policy.names import MANAGED_DELIMITERS
from muster.policy.resolver import documents, encryption, failures
from muster.policy.resolver.documents import Document, Kept
from muster.policy.resolver.encryption import PROTECTED_PREFIX
from muster.policy.resolver.failures import Secrecy
from muster.policy.resolver.functions import MUTATORS, SLOW_FUNCTIONS, function_table
from muster.policy.resolver.interfaces import Encryption, ObjectSource, Resolution, ResolveError, ResolveOptions
from muster.policy.resolver.lookups import Lookups
from muster.policy.resolver.passes import Passes
from muster.policy.resolver.rendering import INLINE_LIMITS, Answers, render, run_in_thread
from muster.policy.resolver.views import ObjectViews, context_struct

_PREPARED_BYTES: Final = 16 * 1024 * 1024
_CONVERTED_BYTES: Final = 8 * 1024 * 1024
_MANY_ACTIONS: Final = 100
"""Compiling more of them takes longer than a run may take on the loop."""
_NO_ENCRYPTION: Final = Encryption()
_NO_OPTIONS: Final = ResolveOptions()


def has_template(text: str, delims: tuple[str, str] = MANAGED_DELIMITERS, *, encrypted: bool = False) -> bool:
    """Whether there is anything to resolve: the left delimiter, or with `encrypted` something encrypted."""
    return delims[0] in text or (encrypted and PROTECTED_PREFIX in text)


@dataclass(slots=True)
class _Prepared:
    """A document as a template."""

    template: Template
    inline: Template
    """The same, within the limits of a run on the loop."""
    decrypted: bool
    private: bool
    """Whether it changes the maps that it is given."""
    heavy: bool
    """Whether it was, or is likely to be, too much for the loop."""


class Resolver:
    """Resolves the templates between these delimiters. Any number of documents may be resolved at the same time."""

    def __init__(
        self, delims: tuple[str, str] = MANAGED_DELIMITERS, additional_indentation: int = 0, *, limits: Limits = DEFAULT_LIMITS
    ) -> None:
        self.delims = delims
        self._additional_indentation = additional_indentation
        self._limits = limits
        self._passes = Passes(delims, additional_indentation)
        self._views = ObjectViews()
        self._prepared: Kept[_Prepared] = Kept(_PREPARED_BYTES)
        self._converted: Kept[bytes] = Kept(_CONVERTED_BYTES)

    async def resolve(self, document: Document, source: ObjectSource, options: ResolveOptions = _NO_OPTIONS) -> Resolution:
        """The document, or text, with its templates resolved. Raises ResolveError."""
        try:
            encryption.check(options.encryption or _NO_ENCRYPTION)
        except GoError as error:
            raise ResolveError(f"error validating EncryptionConfig: {error}") from error
        prepared = await self._prepare(document, options)
        try:
            context = context_struct(options.context, private=prepared.private)
        except GoError as error:
            raise ResolveError(str(error)) from error
        answers = Answers()
        lookups = Lookups(source, options, answers, self._views, private=prepared.private)
        outcome = await self._run(prepared, context, lookups, answers, options)
        if isinstance(outcome, ResolveError):
            # Raised here, where nothing is handled that may hold secrets and that the error would refer to.
            raise outcome
        return Resolution(outcome, prepared.decrypted or lookups.sensitive)

    async def _run(
        self, prepared: _Prepared, context: Any, lookups: Lookups, answers: Answers, options: ResolveOptions
    ) -> Any | ResolveError:
        """The resolved document, or why there is none."""
        bind = {**lookups.bound(), **options.bind}

        def secrecy() -> Secrecy:
            return Secrecy(prepared.template.text, prepared.decrypted or options.sensitive, lookups.sensitive)

        try:
            text, prepared.heavy = await render(
                lambda: prepared.inline.render(context, bind=bind),
                lambda: prepared.template.render(context, bind=bind),
                answers,
                heavy=prepared.heavy,
            )
            return await self._convert(text)
        except ExecError as error:
            prepared.heavy = prepared.heavy or isinstance(error, LimitError)
            return failures.failed(error, secrecy())
        except GoError as error:
            return failures.unconvertible(error, secrecy())

    # From a document to a template

    async def _prepare(self, document: Document, options: ResolveOptions) -> _Prepared:
        try:
            data = documents.encoded(document)
        except GoError as error:
            raise failures.unreadable_document(error, sensitive=options.sensitive) from None
        decrypts = options.encryption is not None and options.encryption.decrypt
        key = (data, options.input_is_yaml, options.denylist, tuple(options.custom_functions.items()))
        found = None if decrypts else self._prepared.get(key)
        if found is not None:
            return found
        is_large = len(data) > documents.LARGE or data.count(self.delims[0].encode()) > _MANY_ACTIONS
        if is_large:
            prepared = await run_in_thread(lambda: self._compile(data, options))
        else:
            prepared = self._compile(data, options)
        if not decrypts:
            self._prepared.put(key, prepared, 4 * len(data))
        return prepared

    def _compile(self, data: bytes, options: ResolveOptions) -> _Prepared:
        try:
            text = data.decode("utf-8", "surrogateescape") if options.input_is_yaml else documents.to_yaml(data)
        except GoError as error:
            raise failures.unreadable_document(error, sensitive=options.sensitive) from None
        decrypted = False
        if options.encryption is not None and options.encryption.decrypt:
            try:
                text, decrypted = encryption.unprotect(options.encryption, text)
            except GoError as error:
                raise ResolveError(str(error)) from error
        text = self._passes(text)
        functions = function_table(self._additional_indentation, options.custom_functions, options.denylist)
        try:
            template = Template(text, delims=self.delims, funcs=functions, limits=self._limits)
            inline = Template(text, delims=self.delims, funcs=functions, limits=INLINE_LIMITS)
        except ParseError as error:
            raise failures.unparsable(error, sensitive=decrypted or options.sensitive) from None
        used = template.functions
        return _Prepared(template, inline, decrypted, not used.isdisjoint(MUTATORS), not used.isdisjoint(SLOW_FUNCTIONS))

    # From the output to a document

    async def _convert(self, text: str) -> Any:
        data = self._converted.get(text)
        if data is None:
            is_large = len(text) > documents.LARGE
            limits = self._limits
            data = await run_in_thread(lambda: documents.to_json(text, limits)) if is_large else documents.to_json(text, limits)
            self._converted.put(text, data, len(text) + len(data))
        return orjson.loads(data)

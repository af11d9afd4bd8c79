"""The resolver of a document's templates.

The steps are go-template-utils': JSON is converted to YAML, encrypted values are decrypted, the two passes rewrite the YAML, the
template runs, its output is parsed as YAML and converted to JSON. A resolver has no state except its caches of documents;
options and source belong to one run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import orjson

from muster.gotemplate import ExecError, GoError, LimitError, Limits, ParseError, Template
from muster.gotemplate.limits import DEFAULT_LIMITS
from muster.policy.names import MANAGED_DELIMITERS
from muster.policy.resolver import documents, encryption, failures
from muster.policy.resolver.documents import Document, SizedCache
from muster.policy.resolver.encryption import PROTECTED_PREFIX
from muster.policy.resolver.failures import Redaction
from muster.policy.resolver.functions import MUTATORS, SLOW_FUNCTIONS, function_table
from muster.policy.resolver.interfaces import Encryption, ObjectSource, Resolution, ResolveError, ResolveOptions
from muster.policy.resolver.lookups import Lookups
from muster.policy.resolver.passes import Passes
from muster.policy.resolver.template_runner import INLINE_LIMITS, PendingResults, render, run_in_thread
from muster.policy.resolver.views import ObjectViews, context_struct

_PREPARED_BYTES: Final = 16 * 1024 * 1024
_CONVERTED_BYTES: Final = 8 * 1024 * 1024
_MANY_ACTIONS: Final = 100
"""Number of actions above which compiling takes longer than the budget of the loop."""
_NO_ENCRYPTION: Final = Encryption()
_NO_OPTIONS: Final = ResolveOptions()


def has_template(text: str, delims: tuple[str, str] = MANAGED_DELIMITERS, *, encrypted: bool = False) -> bool:
    """Whether there is anything to resolve: the left delimiter, or with `encrypted` an encrypted value."""
    return delims[0] in text or (encrypted and PROTECTED_PREFIX in text)


@dataclass(slots=True)
class _Prepared:
    """A document as a compiled template."""

    template: Template
    inline: Template
    """The same, with the limits of a run on the loop."""
    decrypted: bool
    private: bool
    """Whether it modifies its maps."""
    heavy: bool
    """Whether it exceeded, or probably exceeds, the budget of the loop."""


class Resolver:
    """Resolves the templates between these delimiters. Documents may be resolved concurrently."""

    def __init__(
        self, delims: tuple[str, str] = MANAGED_DELIMITERS, additional_indentation: int = 0, *, limits: Limits = DEFAULT_LIMITS
    ) -> None:
        self.delims = delims
        self._additional_indentation = additional_indentation
        self._limits = limits
        self._passes = Passes(delims, additional_indentation)
        self._views = ObjectViews()
        self._prepared: SizedCache[_Prepared] = SizedCache(_PREPARED_BYTES)
        self._converted: SizedCache[bytes] = SizedCache(_CONVERTED_BYTES)

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
        answers = PendingResults()
        lookups = Lookups(source, options, answers, self._views, private=prepared.private)
        value = await self._run(prepared, context, lookups, answers, options)
        if isinstance(value, ResolveError):
            # Raised outside of any exception handler, so that the error has no __context__ that may contain secrets.
            raise value
        return Resolution(value, prepared.decrypted or lookups.sensitive)

    async def _run(
        self, prepared: _Prepared, context: Any, lookups: Lookups, answers: PendingResults, options: ResolveOptions
    ) -> Any | ResolveError:
        """The resolved document, or its failure."""
        bind = {**lookups.bound(), **options.bind}

        def redaction() -> Redaction:
            return Redaction(prepared.template.text, prepared.decrypted or options.sensitive, lookups.sensitive)

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
            return failures.failed(error, redaction())
        except GoError as error:
            return failures.unconvertible(error, redaction())

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

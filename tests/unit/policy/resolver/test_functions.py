"""The functions that policies have beside sprig's, one by one."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from muster.gotemplate import Func
from muster.machinery.objects import GVR, Object
from muster.policy.dependencies import LocalSource
from muster.policy.resolver import AllowedObject, Encryption, ResolveError, ResolveOptions, Resolver, errors
from muster.runtime.cache.selections import Selection
from tests.unit.policy.resolver.conftest import OBJECTS

ENCRYPTION = Encryption(key=b"k" * 32, initialization_vector=b"i" * 16, encrypt=True)


async def value(template: str, source: LocalSource, **options: Any) -> Any:
    """What a document's only value becomes."""
    resolution = await Resolver().resolve({"v": template}, source, ResolveOptions(**options))
    return resolution.value["v"]


async def failure(template: str, source: LocalSource, **options: Any) -> ResolveError:
    with pytest.raises(ResolveError) as raised:
        await value(template, source, **options)
    return raised.value


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ('{{ fromSecret "shop" "creds" "user" | base64dec }}', "alice"),
        ('{{ fromConfigMap "shop" "settings" "color" }}', "blue"),
        ('{{ copyConfigMapData "shop" "zone-a" }}', {"color": "red"}),
        ('{{ copySecretData "shop" "edge-tls" }}', {"tls.crt": "Q0VSVA==", "tls.key": "S0VZ"}),
        ('{{ fromClusterClaim "region" }}', "eu"),
        ('{{ lookupClusterClaim "region" }}', "eu"),
        ('x{{ lookupClusterClaim "gone" }}', "x"),
        ('{{ (lookup "v1" "Node" "" "n1").status.pods | kindOf }}', "int64"),
        ('{{ len (lookup "v1" "ConfigMap" "shop" "" "tier=web" "zone in (a,b)").items }}', "2"),
        ('{{ len (lookup "v1" "ConfigMap" "shop" "" "" "zone=a").items }}', "5"),
        ('{{ len (lookup "v1" "Node" "" "").items | toInt }}', 3),
        ('{{ range (getNodesWithExactRoles "infra").items }}{{ .metadata.name }} {{ end }}', "n1 n2 "),
        ('{{ hasNodesWithExactRoles "storage" }}', "false"),
        ('{{ hasNodesWithExactRoles "infra" "storage" | toString | toBool }}', True),
        ('{{ "010" | toInt }}', 8),
        ('{{ "3.7" | toInt }}', 3),
        ("{{ 3.9 | toInt }}", 3),
        ('{{ "abc" | toInt }}', 0),
        ('{{ atoi "7x" }}', "0"),
        ('{{ "TRUE" | toBool }}', True),
        ('{{ "yes" | toBool }}', False),
        ('{{ "[1, 2]" | toLiteral }}', [1, 2]),
        ('{{ "" | toLiteral }}', None),
        ('{{ (fromYAML "a: [1, yes]").a | toJSON | toLiteral }}', [1, "yes"]),
        ('{{ fromYaml "" | kindOf }}', "invalid"),
        ('{{ dict "b" 1 "a" "x" | toYaml | autoindent }}\n', "a: x\nb: 1\n"),
        ('{{ (fromJSON `{"a": 1}`).a }}', "1"),
        ('{{ dict "a" "<" | toRawJSON }}', '{"a":"<"}'),
        ('{{ "  up\\n down  " | indent 2 }}', "up down"),
    ],
)  # fmt: skip
async def test_a_function_gives(template: str, expected: Any, shop: LocalSource) -> None:
    assert await value(template, shop) == expected


@pytest.mark.parametrize(
    ("template", "cause", "reason"),
    [
        ('{{ fromSecret "shop" "" "k" }}', errors.InvalidInput, "the input is invalid: namespace, name, and key must be specified"),
        ('{{ fromConfigMap "" "a" "k" }}', errors.InvalidInput, "namespace, name, and key must be specified"),
        ('{{ copySecretData "" "a" }}', errors.InvalidInput, "namespace and name must be specified"),
        ('{{ fromClusterClaim "" }}', errors.InvalidInput, "a claim name must be provided"),
        ('{{ lookup "" "Pod" "" "" }}', errors.InvalidInput, "the apiVersion and kind are required"),
        ('{{ lookup "a/b/c" "Pod" "" "" }}', errors.InvalidInput, "unexpected GroupVersion string: a/b/c"),
        ('{{ lookup "v1" "Pod" "" "" "a==b==c" }}', errors.InvalidInput, "found '==', expected: ',' or 'end of string'"),
        ('{{ lookup "example.com/v1" "Widget" "" "" }}', errors.MissingAPIResource, "API resources are not installed"),
        ('{{ getNodesWithExactRoles " " }}', errors.InvalidInput, "at least one name must be specified"),
        ('{{ fromSecret "shop" "gone" "k" }}', errors.ObjectNotFound, 'secrets "gone" not found'),
        ('{{ "x" | protect }}', errors.ProtectNotEnabled, "the protect template function is not enabled in this mode"),
        ('{{ env "HOME" }}', errors.DeniedFunction, "function 'env' is considered a security risk"),
        ('{{ expandenv "$HOME" }}', errors.DeniedFunction, "function 'expandenv' is considered a security risk"),
        ('{{ "a\\nb" | toLiteral }}', errors.NewLinesNotAllowed, "new lines are not allowed"),
        ('{{ toBool 1 }}', None, "expected string; found 1"),
        ('{{ "a" | indent -1 }}', None, "strings: negative Repeat count"),
    ],
)  # fmt: skip
async def test_a_function_refuses(template: str, cause: type[Exception] | None, reason: str, shop: LocalSource) -> None:
    error = await failure(template, shop)
    assert reason in str(error)
    assert (type(error.__cause__) is cause) if cause else error.__cause__ is None


async def test_a_denied_function_fails_when_it_is_called_and_not_before(shop: LocalSource) -> None:
    denylist = frozenset({"getHostByName", "lookup"})
    assert await value('{{ if false }}{{ getHostByName "localhost" }}{{ end }}ok', shop, denylist=denylist) == "ok"
    for call in ('getHostByName "localhost"', 'lookup "v1" "Pod" "" ""'):
        error = await failure(f"{{{{ {call} }}}}", shop, denylist=denylist)
        assert isinstance(error.__cause__, errors.DeniedFunction)
        assert f"function '{call.split()[0]}' is not allowed" in str(error)


async def test_a_custom_function_is_bound_for_its_run(shop: LocalSource) -> None:
    called: list[str] = []

    def note(text: str) -> str:
        called.append(text)
        return ""

    functions = {"note": Func(lambda text: "", ("string",), late=True)}
    bind = {"note": note}
    assert await value('{{ note "here" }}x', shop, custom_functions=functions, bind=bind) == "x"
    assert called == ["here"]


async def test_indentation_is_relative_to_the_additional_one(shop: LocalSource) -> None:
    document = {"data": {"a": '{{ "one\\ntwo" | autoindent }}\n'}}
    resolution = await Resolver(additional_indentation=2).resolve(document, shop)
    assert resolution.value == {"data": {"a": "one\ntwo\n"}}


class TestLookupsInOneNamespace:
    RESTRICTED: ClassVar = {"lookup_namespace": "shop"}

    async def test_the_namespace_may_be_left_out(self, shop: LocalSource) -> None:
        assert await value('{{ fromConfigMap "" "settings" "color" }}', shop, **self.RESTRICTED) == "blue"
        assert await value('{{ (lookup "v1" "ConfigMap" "" "zone-a").data.color }}', shop, **self.RESTRICTED) == "red"

    async def test_another_namespace_is_refused(self, shop: LocalSource) -> None:
        error = await failure('{{ fromConfigMap "other" "settings" "color" }}', shop, **self.RESTRICTED)
        assert isinstance(error.__cause__, errors.RestrictedNamespace)
        assert str(error).endswith("the namespace argument is restricted to shop")

    async def test_cluster_scoped_objects_need_the_allow_list(self, shop: LocalSource) -> None:
        template = '{{ (lookup "v1" "Node" "" "n1").metadata.name }}'
        error = await failure(template, shop, **self.RESTRICTED)
        assert isinstance(error.__cause__, errors.ClusterScopedLookup)
        assert str(error).endswith("lookup of cluster-scoped resource 'Node/n1' is not allowed")
        for allowed in (AllowedObject("", "Node", "n1"), AllowedObject("*", "*", "*")):
            assert await value(template, shop, **self.RESTRICTED, allow_list=(allowed,)) == "n1"
        for other in (AllowedObject("", "Node", "n2"), AllowedObject("apps", "Node", "*"), AllowedObject("*", "Pod", "*")):
            await failure(template, shop, **self.RESTRICTED, allow_list=(other,))


class Recording(LocalSource):
    """Says what was read of it."""

    def __init__(self, objects: list[Object]) -> None:
        super().__init__(objects)
        self.reads: list[Selection] = []

    async def read(self, selection: Selection) -> Any:
        self.reads.append(selection)
        return await super().read(selection)


CONFIG_MAPS = GVR("v1", "configmaps", "ConfigMap")


async def test_nothing_is_read_but_what_a_template_comes_to() -> None:
    source = Recording(OBJECTS)
    template = (
        '{{ if eq (fromConfigMap "shop" "settings" "color") "red" }}{{ fromConfigMap "shop" "zone-a" "color" }}'
        '{{ else }}{{ fromConfigMap "shop" "zone-b" "color" }}{{ end }}'
    )
    assert await value(template, source) == "green"
    assert source.reads == [Selection(CONFIG_MAPS, "shop", "settings"), Selection(CONFIG_MAPS, "shop", "zone-b")]


async def test_what_is_asked_twice_is_read_once() -> None:
    source = Recording(OBJECTS)
    await value('{{ range until 3 }}{{ fromConfigMap "shop" "settings" "color" }}{{ end }}', source)
    assert source.reads == [Selection(CONFIG_MAPS, "shop", "settings")]


async def test_a_selector_is_read_in_its_canonical_form_and_not_at_all_with_a_name() -> None:
    source = Recording(OBJECTS)
    await value('{{ lookup "v1" "ConfigMap" "shop" "" "zone in (b,a)" "tier=web" }}', source)
    await value('{{ lookup "v1" "ConfigMap" "shop" "zone-a" "tier=web" }}', source)
    assert source.reads == [Selection(CONFIG_MAPS, "shop", "", "tier=web,zone in (a,b)"), Selection(CONFIG_MAPS, "shop", "zone-a")]


@pytest.mark.parametrize("change", ["set", "merge", "mergeOverwrite", "unset"])
async def test_a_template_that_changes_maps_changes_its_own(change: str, shop: LocalSource) -> None:
    arguments = {"set": '$cm.data "color" "pink"', "unset": '$cm.data "color"'}.get(
        change, '$cm.data (dict "color" "pink" "x" "y")'
    )
    before = (await shop.read(Selection(CONFIG_MAPS, "shop", "zone-a")))[0]
    assert before["data"] == {"color": "red"}
    template = (
        f'{{{{ $cm := lookup "v1" "ConfigMap" "shop" "zone-a" }}}}{{{{ $_ := {change} {arguments} }}}}{{{{ len $cm.data }}}}'
        '{{ (lookup "v1" "ConfigMap" "shop" "zone-a").data.color }}'
    )
    assert (await value(template, shop)).endswith("red")
    assert before["data"] == {"color": "red"}


async def test_a_template_cannot_change_its_context(shop: LocalSource) -> None:
    object_: Object = {"metadata": {"name": "a"}}
    await value('{{ $_ := set .Object.metadata "name" "b" }}{{ .Object.metadata.name }}', shop, context={"Object": object_})
    assert object_ == {"metadata": {"name": "a"}}


async def test_numbers_of_the_context_object_are_int64(shop: LocalSource) -> None:
    context = {"Object": {"spec": {"replicas": 3}}}
    assert await value("{{ kindOf .Object.spec.replicas }}", shop, context=context) == "int64"


async def test_a_context_of_something_else_is_refused(shop: LocalSource) -> None:
    error = await failure("{{ .When }}", shop, context={"When": object()})
    assert isinstance(error.__cause__, errors.InvalidContext)
    assert "the input context must be a struct that recurses to kinds bool, int, float, or string" in str(error)


class TestEncryption:
    async def test_what_was_protected_is_decrypted_before_templates_run(self, shop: LocalSource) -> None:
        protected = await value('{{ "two\\nlines" | protect }}', shop, encryption=ENCRYPTION)
        decryption = Encryption(ENCRYPTION.key, b"", ENCRYPTION.initialization_vector, decrypt=True)
        resolution = await Resolver().resolve(
            {"v": f'{{{{ "{protected}" | upper }}}}'}, shop, ResolveOptions(encryption=decryption)
        )
        assert resolution.value == {"v": "TWO LINES"}
        assert resolution.sensitive

    async def test_while_keys_rotate_the_previous_key_decrypts(self, shop: LocalSource) -> None:
        protected = await value('{{ "plain" | protect }}', shop, encryption=ENCRYPTION)
        rotated = Encryption(b"n" * 32, ENCRYPTION.key, ENCRYPTION.initialization_vector, decrypt=True)
        assert await value(f"x {protected}", shop, encryption=rotated) == "x plain"

    async def test_nothing_encrypted_is_nothing_sensitive(self, shop: LocalSource) -> None:
        decryption = Encryption(b"k" * 32, b"", b"i" * 16, decrypt=True)
        assert not (await Resolver().resolve({"v": "x"}, shop, ResolveOptions(encryption=decryption))).sensitive

    async def test_secrets_are_protected_as_they_are_read(self, shop: LocalSource) -> None:
        read = await value('{{ fromSecret "shop" "creds" "user" }}', shop, encryption=ENCRYPTION)
        assert read == await value('{{ "YWxpY2U=" | protect }}', shop, encryption=ENCRYPTION)

    @pytest.mark.parametrize(
        ("encryption", "cause", "reason"),
        [
            (Encryption(encrypt=True), errors.InvalidKey, "AESKey must be set to use this encryption mode"),
            (Encryption(b"short", decrypt=True), errors.InvalidKey, "the AES key is invalid: crypto/aes: invalid key size 5"),
            (Encryption(b"k" * 16, b"x", decrypt=True), errors.InvalidKey, "invalid key size 1"),
            (Encryption(b"k" * 16, encrypt=True), errors.InvalidInitializationVector, "initialization vector must be set"),
            (Encryption(b"k" * 24, b"", b"i", encrypt=True), errors.InvalidInitializationVector, "must be 128 bits"),
        ],
    )
    async def test_a_configuration_that_cannot_work_is_refused(
        self, encryption: Encryption, cause: type[Exception], reason: str, shop: LocalSource
    ) -> None:
        error = await failure("x", shop, encryption=encryption)
        assert str(error).startswith("error validating EncryptionConfig: ")
        assert reason in str(error)
        assert type(error.__cause__) is cause

    @pytest.mark.parametrize(
        ("text", "cause", "reason"),
        [
            ("$ocm_encrypted:=", errors.InvalidBase64, "the encrypted string is invalid base64"),
            ("$ocm_encrypted:YWJj", errors.InvalidPadding, "not made of full blocks"),
            ("$ocm_encrypted:" + "A" * 22 + "==", errors.InvalidPadding, "invalid PCKS7 padding"),
        ],
    )
    async def test_what_cannot_be_decrypted_is_named(
        self, text: str, cause: type[Exception], reason: str, shop: LocalSource
    ) -> None:
        decryption = Encryption(b"k" * 32, b"", b"i" * 16, decrypt=True)
        error = await failure(text, shop, encryption=decryption)
        assert str(error).startswith("decryption of $ocm_encrypted:")
        assert reason in str(error)
        assert type(error.__cause__) is cause

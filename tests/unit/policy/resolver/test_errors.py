"""What an error says, and what it must not say."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from typing import Any

import pytest

from muster.machinery.objects import Object
from muster.policy.dependencies import LocalSource
from muster.policy.names import HUB_DELIMITERS
from muster.policy.resolver import Encryption, ResolveError, ResolveOptions, Resolver
from muster.runtime.cache.selections import Selection
from muster.runtime.client.errors import Forbidden, KubeError, Unreachable
from tests.unit.policy.resolver.conftest import OBJECTS

USER = "system:open-cluster-management:cluster:c1:addon:{0}:agent:{0}".format("governance-standalone-hub-templating")


class Refusing(LocalSource):
    """Fails all reads of ConfigMaps."""

    def __init__(self, error: KubeError) -> None:
        super().__init__(OBJECTS)
        self.error = error

    async def read(self, selection: Selection) -> Sequence[Object]:
        if selection.resource.kind == "ConfigMap":
            raise self.error
        return await super().read(selection)


async def failure(document: Any, source: LocalSource, **options: Any) -> ResolveError:
    with pytest.raises(ResolveError) as raised:
        await Resolver(options.pop("delims", ("{{", "}}"))).resolve(document, source, ResolveOptions(**options))
    return raised.value


def everything_shown(error: ResolveError) -> str:
    """The error in all forms in which somebody may log it."""
    return "".join(traceback.format_exception(error)) + repr(error) + error.detail


async def test_what_the_server_refused_is_seen_in_the_first_200_characters(shop: LocalSource) -> None:
    message = (
        f'configmaps "cfg" is forbidden: User "{USER}" cannot list resource "configmaps" in API group "" in the namespace "hubns"'
    )
    refused = Forbidden(403, "Forbidden", message)
    document = {"spec": {"padding": "x" * 5000, "v": '{{hub fromConfigMap "hubns" "cfg" "k" hub}}'}}
    error = await failure(document, Refusing(refused), delims=HUB_DELIMITERS)
    assert str(error).startswith("failed to resolve the template: template: tmpl:3:12: executing ")
    assert 'configmaps "cfg" is forbidden' in str(error)[:200]
    assert str(error).endswith('in the namespace "hubns"')
    assert "xxx" not in str(error)
    assert error.__cause__ is refused
    assert (error.line, error.column) == (3, 12)


async def test_a_server_that_cannot_be_reached_is_the_cause() -> None:
    away = Unreachable("https://hub", "connection refused", sent=False)
    error = await failure({"v": '{{ fromConfigMap "a" "b" "c" }}'}, Refusing(away))
    assert error.__cause__ is away
    error = await failure({"v": '{{ lookup "v1" "ConfigMap" "a" "b" }}'}, Refusing(away))
    assert error.__cause__ is away


async def test_a_template_that_does_not_parse_says_where(shop: LocalSource) -> None:
    error = await failure({"a": "x", "v": "{{ if }}"}, shop)
    assert str(error) == "failed to parse the template JSON string: template: tmpl:2: missing value for if"
    assert error.line == 2


async def test_what_is_no_document_is_refused_in_the_words_of_yaml(shop: LocalSource) -> None:
    error = await failure('{"a": "b", "a": [}', shop)
    assert str(error).startswith("failed to convert the policy template to YAML: yaml: ")


async def test_output_that_is_no_yaml_is_refused(shop: LocalSource) -> None:
    error = await failure('a: {{ "[" }}', shop, input_is_yaml=True)
    assert str(error).startswith("failed to convert the resolved template to JSON: yaml: ")


@pytest.mark.parametrize("text", ["a: .nan", "1: {2: 3}"])
async def test_output_that_json_cannot_say_is_refused(text: str, shop: LocalSource) -> None:
    error = await failure(text, shop, input_is_yaml=True)
    assert str(error).startswith("failed to convert the resolved template to JSON: json: unsupported ")


READ = '$p := fromSecret "shop" "creds" "pass" | base64dec'
LEAKS = {
    "fail": f"{{{{ {READ} }}}}{{{{ fail $p }}}}",
    "a value that is ranged over": f"{{{{ {READ} }}}}{{{{ range $p }}}}{{{{ end }}}}",
    "a name that is looked up": f'{{{{ {READ} }}}}{{{{ fromConfigMap "shop" $p "k" }}}}',
    "a kind that is looked up": f'{{{{ {READ} }}}}{{{{ lookup "v1" $p "" "" }}}}',
    "a version that is looked up": f'{{{{ {READ} }}}}{{{{ lookup (print "a/b/" $p) "x" "" "" }}}}',
    "a selector": f'{{{{ {READ} }}}}{{{{ lookup "v1" "Pod" "" "" (print $p "==b==c") }}}}',
    "a claim": f"{{{{ {READ} }}}}{{{{ fromClusterClaim $p }}}}",
    "JSON": f"{{{{ {READ} }}}}{{{{ mustFromJson $p }}}}",
    "a date": f'{{{{ {READ} }}}}{{{{ mustToDate "2006" $p }}}}',
    "a duration": f"{{{{ {READ} }}}}{{{{ mustDateModify $p now }}}}",
    "a regular expression": f'{{{{ {READ} }}}}{{{{ mustRegexMatch (print "[" $p) "a" }}}}',
    "a version": f"{{{{ {READ} }}}}{{{{ semver $p }}}}",
    "a YAML anchor": f'{{{{ {READ} }}}}{{{{ print "*" $p | toLiteral }}}}',
    "a YAML key": f"{{{{ {READ} }}}}{{{{ printf \"{{%s: 1, %s: 2}}\" $p $p | toLiteral }}}}",
    "YAML inside": f'{{{{ {READ} }}}}{{{{ print "*" $p | fromYAML }}}}',
}  # fmt: skip


@pytest.mark.parametrize("template", LEAKS.values(), ids=LEAKS)
@pytest.mark.parametrize("derived", [False, True], ids=["as it is", "upper case"])
async def test_nothing_of_a_secret_that_was_read_is_in_an_error(template: str, derived: bool, shop: LocalSource) -> None:
    if derived:
        template = template.replace("| base64dec", "| base64dec | upper")
    error = await failure({"v": template}, shop)
    assert "s3cr3t" not in everything_shown(error).lower()
    assert "the reason is not shown, because it may hold sensitive data" in str(error)


async def test_after_a_secret_was_read_an_error_still_says_what_the_template_itself_says() -> None:
    refused = Forbidden(403, "Forbidden", 'configmaps "cfg" is forbidden')
    template = f'{{{{ {READ} }}}}{{{{ fromConfigMap "ns" "cfg" "k" }}}}'
    error = await failure({"v": template}, Refusing(refused))
    assert str(error).endswith('failed getting the ConfigMap cfg from ns: configmaps "cfg" is forbidden')
    error = await failure({"v": f"{{{{ {READ} }}}}{{{{ $p.x }}}}"}, Refusing(refused))
    assert str(error).endswith("at <$p.x>: can't evaluate field x in type string")


async def test_nothing_of_a_text_that_was_decrypted_is_in_an_error(shop: LocalSource) -> None:
    keys = (b"k" * 32, b"", b"i" * 16)
    protecting = ResolveOptions(encryption=Encryption(*keys, encrypt=True))
    protected = (await Resolver().resolve({"v": '{{ "s3cr3t" | protect }}'}, shop, protecting)).value["v"]
    for template in ('{{ fail "%s" }}', "{{ %s }}", '{{ fromConfigMap "shop" "%s" "k" }}', "{{ .%s }}", '{{ until "%s" }}'):
        error = await failure({"v": template % protected}, shop, context={}, encryption=Encryption(*keys, decrypt=True))
        assert "s3cr3t" not in everything_shown(error)
        assert "template: tmpl:1" in str(error)


async def test_nothing_of_a_sensitive_document_is_in_an_error() -> None:
    away = Unreachable("https://cluster", "connection refused")
    for template in ('{{ fail "s3cr3t" }}', '{{ fromConfigMap "shop" "s3cr3t" "k" }}', "{{ s3cr3t }}", "{{ .s3cr3t.x }}"):
        error = await failure({"v": template}, Refusing(away), context={}, sensitive=True)
        assert "s3cr3t" not in everything_shown(error).replace(str(away), "")
    error = await failure({"v": '{{ fromConfigMap "shop" "s3cr3t" "k" }}'}, Refusing(away), sensitive=True)
    assert "error calling fromConfigMap: Unreachable: the reason is not shown" in str(error)
    assert error.__cause__ is away


async def test_the_environment_of_the_controller_is_not_to_be_had(shop: LocalSource, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRECIOUS", "s3cr3t")
    for template in ('{{ env "PRECIOUS" }}', '{{ expandenv "$PRECIOUS" }}', '{{ "PRECIOUS" | env }}'):
        error = await failure({"v": template}, shop)
        assert "is considered a security risk" in str(error)
        assert "s3cr3t" not in everything_shown(error)

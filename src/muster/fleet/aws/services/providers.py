"""IAM's OpenID Connect providers: the issuers whose tokens an account's roles may trust.

AWS allows no port in a provider's URL; clusters of a local fleet have one, so it is allowed here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from muster.fleet.aws.errors import already_exists, invalid, limit_exceeded, no_such_entity
from muster.fleet.aws.model import Account, OidcProvider
from muster.fleet.aws.services.operation import Call, Operation, Result, Services
from muster.fleet.aws.services.roles import shown_tags

MOST_PROVIDERS: Final = 100
_URL: Final = re.compile(r"https://[A-Za-z0-9.-]+(?::[0-9]{1,5})?(?:/[A-Za-z0-9._~/-]*)?")
_THUMBPRINT: Final = re.compile(r"[0-9A-Fa-f]{40}")


async def create_provider(services: Services, call: Call) -> Result:
    url = call.parameters.text("Url", pattern=_URL, longest=255).removeprefix("https://")
    audiences = call.parameters.texts("ClientIDList")
    thumbprints = call.parameters.texts("ThumbprintList", most=5, longest=40)
    if not all(_THUMBPRINT.fullmatch(thumbprint) for thumbprint in thumbprints):
        raise invalid("ThumbprintList must have SHA-1 thumbprints of 40 hexadecimal digits")
    tags = call.parameters.pairs("Tags")
    account = services.account(call)
    arn = services.world.iam_arn(account.number, f"oidc-provider/{url}")
    services.require(call, "iam:CreateOpenIDConnectProvider", arn, request_tags=tags)
    if url in account.providers:
        raise already_exists(f"Provider with url https://{url} already exists.")
    if len(account.providers) >= MOST_PROVIDERS:
        raise limit_exceeded(f"Cannot exceed quota for OpenIdConnectProvidersPerAccount: {MOST_PROVIDERS}")
    now = services.world.clock.now().replace(microsecond=0)
    account.providers[url] = OidcProvider(url=url, audiences=audiences, created=now, thumbprints=thumbprints, tags=tags)
    return {"OpenIDConnectProviderArn": arn, "Tags": shown_tags(tags)}


async def list_providers(services: Services, call: Call) -> Result:
    account = services.account(call)
    services.require(call, "iam:ListOpenIDConnectProviders", services.world.iam_arn(account.number, "oidc-provider/*"))
    arns = [services.world.iam_arn(account.number, f"oidc-provider/{url}") for url in sorted(account.providers)]
    return {"OpenIDConnectProviderList": [{"Arn": arn} for arn in arns]}


async def get_provider(services: Services, call: Call) -> Result:
    _, provider = _existing(services, call, "iam:GetOpenIDConnectProvider")
    return {
        "Url": provider.url,
        "ClientIDList": list(provider.audiences),
        "ThumbprintList": list(provider.thumbprints),
        "CreateDate": provider.created,
        "Tags": shown_tags(provider.tags),
    }


async def delete_provider(services: Services, call: Call) -> Result:
    account, provider = _existing(services, call, "iam:DeleteOpenIDConnectProvider")
    del account.providers[provider.url]
    return None


def _existing(services: Services, call: Call, action: str) -> tuple[Account, OidcProvider]:
    arn = call.parameters.text("OpenIDConnectProviderArn", shortest=20, longest=2048)
    account = services.account(call)
    services.require(call, action, arn)
    prefix = services.world.iam_arn(account.number, "oidc-provider/")
    found = account.providers.get(arn.removeprefix(prefix)) if arn.startswith(prefix) else None
    if found is None:
        raise no_such_entity(f"OpenIDConnect Provider not found for arn {arn[:300]}")
    return account, found


OPERATIONS: Final[Mapping[str, Operation]] = {
    "CreateOpenIDConnectProvider": Operation(create_provider, changes=True),
    "ListOpenIDConnectProviders": Operation(list_providers),
    "GetOpenIDConnectProvider": Operation(get_provider),
    "DeleteOpenIDConnectProvider": Operation(delete_provider, changes=True),
}

"""Registration by certificate signing request: the hub's own certificate authority vouches for the agent.

`spoke.py` asks, `approval.py` on the hub answers what needs no administrator, `hub.py` votes on acceptance, and `requests.py` knows
what a request of an agent looks like.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from muster.registration.drivers.csr.options import NAME

if TYPE_CHECKING:
    from muster.registration.drivers.seam import HubContext, HubDriver, SpokeContext, SpokeDriver


class CsrDriver:
    """Each side is loaded where it is used: an agent has no use for the hub's."""

    name: str = NAME
    aliases: tuple[str, ...] = ()

    def hub(self, context: HubContext) -> HubDriver:
        from muster.registration.drivers.csr.hub import CsrHub

        return CsrHub(context)

    def spoke(self, context: SpokeContext) -> SpokeDriver:
        from muster.registration.drivers.csr.spoke import CsrSpoke

        return CsrSpoke(context)


DRIVER: Final = CsrDriver()

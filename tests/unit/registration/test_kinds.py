"""Registration reads addons as they are stored: another version costs a call of the conversion webhook for each of their changes,
and cannot be had at all before that webhook answers, which starts together with the controllers that would wait for it."""

from muster.api import crds
from muster.registration.kinds import ADDONS


def test_the_hubs_controllers_read_addons_in_the_version_that_is_stored() -> None:
    (definition,) = [one for one in crds.HUB if one.resource.plural == ADDONS.plural]
    assert ADDONS.api_version == f"{definition.resource.group}/{definition.stored}"

"""The check of a cluster's addons in `doctor`: for each one that is not available, the first missing step and the remedy."""

from __future__ import annotations

from muster.administration.content.addon_steps import missing_step
from muster.administration.content.addons import ADDONS, view_of
from muster.administration.findings import OK, PROBLEM, Diagnosis, Finding, Findings
from muster.api import MalformedObject
from muster.api.addon.v1alpha1 import ManagedClusterAddOn
from muster.runtime.client import NotFound


async def addons(diagnosis: Diagnosis) -> Findings:
    well = 0
    try:
        documents = (await diagnosis.hub.list(ADDONS, diagnosis.name)).items
    except NotFound:
        return
    for document in documents:
        subject = f"addon {document['metadata']['name']}"
        try:
            missing = missing_step(await view_of(diagnosis.hub, ManagedClusterAddOn.decode(document)))
        except MalformedObject as error:
            yield Finding(PROBLEM, subject, f"cannot be read: {error}", "mend it, or disable the addon and enable it again")
            continue
        if missing is None:
            well += 1
        else:
            yield Finding(PROBLEM, subject, f"{missing.step}: {missing.text}", missing.remedy)
    if well:
        yield Finding(OK, "addons", f"{well} of {len(documents)} available")

"""What the server says its version is, as clients and charts read it."""

from muster.apiserver.client import DirectClient
from muster.gotemplate import Template


async def test_charts_for_this_minor_version_and_older_ones_take_the_server(client: DirectClient) -> None:
    version = (await client.get("/version"))["gitVersion"]
    for constraint in (">=1.25", ">=1.35.0", "1.35.x", "^1.30"):
        rendered = Template("{{ semverCompare .constraint .version }}").render({"constraint": constraint, "version": version})
        assert rendered == "true", (constraint, version)

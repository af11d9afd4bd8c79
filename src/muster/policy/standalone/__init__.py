"""Hub templates of policies that no policy framework has resolved: `{{hub … hub}}`, resolved here, on the managed cluster, with
the identity that the addon `governance-standalone-hub-templating` has on the hub."""

from muster.policy.standalone.hub_templates import HubTemplates
from muster.policy.standalone.interfaces import HubResolution, HubTemplateError, PolicyKey

__all__ = ["HubResolution", "HubTemplateError", "HubTemplates", "PolicyKey"]

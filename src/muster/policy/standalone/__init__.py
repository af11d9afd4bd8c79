"""Hub templates without the policy framework: `{{hub … hub}}`, resolved on the managed cluster, with the identity on the hub of
the addon `governance-standalone-hub-templating`."""

from muster.policy.standalone.hub_templates import HubTemplates
from muster.policy.standalone.interfaces import HubResolution, HubTemplateError, PolicyKey

__all__ = ["HubResolution", "HubTemplateError", "HubTemplates", "PolicyKey"]

"""Addons that are defined by an AddOnTemplate and need no program on the hub.

`addon.TemplateAddon` renders a cluster's agent from the template and the AddOnDeploymentConfig only: variables are replaced in
parsed manifests (`variables`), pod templates get environment, volumes, node placement, images and resources (`workloads`, with
`images` and `resources`), everything moves to the install namespace (`namespaces`), and the template's registrations become
credentials and permissions (`registrations`). `registry.TemplateAddons` determines which addons are defined by templates.
"""

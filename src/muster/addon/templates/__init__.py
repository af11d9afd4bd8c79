"""Addons that are made of an AddOnTemplate and need no program on the hub.

`addon.TemplateAddon` renders one cluster's agent from the template and the AddOnDeploymentConfig that it was given, and nothing
else: variables are put into parsed manifests (`variables`), pod templates get environment, volumes, node placement, images and
resources (`workloads`, with `images` and `resources`), everything moves to the install namespace (`namespaces`), and the template's
registrations become credentials and rights (`registrations`). `registry.TemplateAddons` knows which addons are such ones.
"""

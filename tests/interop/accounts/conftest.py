"""A hub and a managed cluster of ours, as for addons; who serves managed-serviceaccount, and who its agent is, is each test's."""

from tests.e2e.addon.conftest import ground, grpc_signer, site

__all__ = ["ground", "grpc_signer", "site"]

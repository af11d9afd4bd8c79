"""OperatorPolicy: an operator of Operator Lifecycle Manager (OLM) that must, or must not, be installed.

`operator_policy_controller` creates the controller. Below it, one module for each of OLM's kinds decides from observed objects
what to report and what to write; these modules make no requests.
"""

from muster.policy.operators.controller import OperatorPolicyController, OperatorPolicyOptions, operator_policy_controller

__all__ = ["OperatorPolicyController", "OperatorPolicyOptions", "operator_policy_controller"]

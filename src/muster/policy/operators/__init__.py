"""OperatorPolicy: an operator of OLM that must, or must not, be installed.

`operator_policy_controller` makes the controller. Below it, one module per kind of OLM's decides from observed objects what is
said and what is to be written, and asks no server.
"""

from muster.policy.operators.controller import OperatorPolicyController, OperatorPolicyOptions, operator_policy_controller

__all__ = ["OperatorPolicyController", "OperatorPolicyOptions", "operator_policy_controller"]

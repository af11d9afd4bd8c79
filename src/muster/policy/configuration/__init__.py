"""ConfigurationPolicy: desired objects, their comparison with existing ones, remediation, and the status."""

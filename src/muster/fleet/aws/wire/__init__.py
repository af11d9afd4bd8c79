"""The wire protocols: the Query protocol of STS and IAM (`query.py`), and EKS' REST with JSON (`rest.py`)."""

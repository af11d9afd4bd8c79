"""What is put into a cluster before anything runs there: accounts, rules, definitions, namespaces."""

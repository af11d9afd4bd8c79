"""ConfigurationPolicy: which objects are meant, how they compare with what there is, what is done about it and what is reported."""

"""gotemplate"""

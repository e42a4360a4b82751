"""
Replication: a master and its slaves hold the same bytes, and know what each holds.
"""

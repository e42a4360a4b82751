"""
In-sync decisions of a master: what replicas hold, which count, which acks are reached.
"""

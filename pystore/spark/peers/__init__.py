"""
Verification of the replicas of running brokers, which feeds the queue of repairs.
"""

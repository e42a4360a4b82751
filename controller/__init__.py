"""
The controller: who is master of a set of brokers, and who is in its SyncStateSet.
"""

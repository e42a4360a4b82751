"""
The controller: decides the master and the SyncStateSet of each broker set.
"""

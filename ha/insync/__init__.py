"""
Who holds what: catch-up, the SyncStateSet, the confirm offset, acks. Pure.
"""

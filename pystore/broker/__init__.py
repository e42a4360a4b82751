"""
A broker: a replica of a store, and what connects it with its controllers.

Replication and controllers know nothing of each other; here they meet.
"""

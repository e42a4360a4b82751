"""
A broker: a replica of a store with its connection to the controllers.

Replication and controller do not import each other; this package connects them.
"""

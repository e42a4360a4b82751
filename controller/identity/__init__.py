"""
The negotiation of a persistent broker id, and where it is stored.
"""

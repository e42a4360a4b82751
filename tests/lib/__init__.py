"""
What the tests share: builders, oracles, peers and fixtures.
"""

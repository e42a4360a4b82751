"""
Controllers and brokers for tests.
"""

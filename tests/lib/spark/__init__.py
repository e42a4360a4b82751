"""
Compactions, exports and verifications for tests.
"""

"""
Live brokers, leases, and the authority of this controller.
"""

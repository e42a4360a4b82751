"""
Healing a damaged store: the plan in the order of loss, and its steps.
"""

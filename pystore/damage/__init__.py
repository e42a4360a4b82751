"""
Damage of a store: what is bad, what that rests on, and what is readable behind it.
"""

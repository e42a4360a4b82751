"""
Crash recovery: what a store holds at its opening, what is torn, what is cut.
"""

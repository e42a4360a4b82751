"""
The demonstration: real input, a writer that is killed, and nothing lost.
"""

"""
Pure judgement on the master: who holds what, who counts, and what is promised.
"""

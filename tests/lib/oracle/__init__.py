"""
What is right: golden data, slow twins of the code, and generators.
"""

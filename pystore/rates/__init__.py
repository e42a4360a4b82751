"""
How fast repairs and catch-up of replicas may be, and how they yield to writers.
"""

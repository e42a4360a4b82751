"""
A broker's connection to its controllers: discovery of the leader, and requests.
"""

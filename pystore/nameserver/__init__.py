"""
The routes that RocketMQ's name server answers: who has which topic, and where.
"""

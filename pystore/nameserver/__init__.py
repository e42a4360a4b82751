"""
RocketMQ's name server: the routes of topics to brokers.
"""

"""A release that answers its readiness probe's connection and then nobody."""
import time


def application(environ, start_response):
    """Never return: no answer, no exception, no CPU."""
    while True:
        time.sleep(3600)

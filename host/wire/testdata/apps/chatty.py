"""Prints from a thread of its own, whoever is there."""
import threading
import time


def chat():
    n = 0
    while True:
        n += 1
        print("line", n)
        time.sleep(0.01)


threading.Thread(target=chat, daemon=True).start()


def application(environ, start_response):
    start_response("200 OK", [])
    return [b"chatty"]

import threading


def connect():
    threading.Event().wait()


connect()

import threading

lock = threading.Lock()


def hang():
    lock.acquire()
    lock.acquire()


hang()

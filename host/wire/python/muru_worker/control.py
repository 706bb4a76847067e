"""The worker's control connection. It is opened before the application is
imported and served by a thread of its own, so that an import that hangs can
be looked at."""
import os
import sys
import threading
import time

from . import stacks
from .link import HEADER, Connection, Lost

END_GRACE = 10  # seconds for the main thread to end an orphaned worker


class Control:
    def __init__(self, settings):
        self.settings = settings
        self.connection = Connection(settings, -1)
        self.lock = threading.Lock()  # guards the two below and what is sent
        self.status = None  # what every daemon must know: ready or failed
        self.greeted = False  # this connection's daemon may be told
        self.sent = threading.Event()  # the status reached a daemon

    def serve(self):
        alone = time.monotonic()
        while self.connect(alone + self.settings.orphan):
            try:
                with self.lock:
                    self.greeted = True
                    self.tell()
                self.obey()
            except Lost:
                pass
            with self.lock:
                self.greeted = False
            self.connection.drop()
            if self.connection.lasted():
                alone = time.monotonic()
        if self.settings.stopping:
            self.outlived()
        else:
            self.orphaned()

    def connect(self, limit):
        return self.connection.connect(lambda: time.monotonic() > limit)

    def obey(self):
        while True:
            _, number, command, _ = self.connection.receive()
            if command == "stacks":
                words = ["stacks"] + stacks.describe(self.settings.source)
                with self.lock:
                    self.send(words, number)
            elif command == "exit":
                flush()
                os._exit(0)

    def outlived(self):
        """The daemon told the worker to end and is gone: nobody will kill it
        if a request of it never ends."""
        time.sleep(self.settings.orphan)
        flush()
        os._exit(0)

    def orphaned(self):
        sys.stderr.write("muru worker: no daemon came for %g s, ending\n" % self.settings.orphan)
        self.settings.stop()
        time.sleep(END_GRACE)
        flush()
        os._exit(0)

    def report_ready(self):
        self.report(["ready"])

    def report_failed(self, text):
        """Tells the daemon, and waits until it was told: the process ends
        after this."""
        self.report(["failed", text])
        self.sent.wait(5)

    def report(self, words):
        with self.lock:
            self.status = words
            if self.greeted:
                try:
                    self.tell()
                except Lost:
                    pass  # the next daemon will be told

    def tell(self):
        if self.status is not None:
            self.send(self.status, 0)
            self.sent.set()

    def send(self, words, number):
        head = "\0".join([w.replace("\0", " ") for w in words]).encode("utf-8", "backslashreplace")
        self.connection.send(HEADER.pack(len(head), 0, number, 0, min(len(words), 0xFFFF)) + head)


def flush():
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            pass  # the application closed it

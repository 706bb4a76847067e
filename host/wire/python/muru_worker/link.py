"""Frames, and the connections that carry them.

A frame is a header of 16 bytes (u32 length of the head, u32 length of the
body, u32 id of the request, u16 flags, u16 number of fields; little-endian),
the head and the body. The daemon's frame.go describes each flag.
"""
import os
import struct
import sys
import threading
import time

# By name: an application may patch the module.
from socket import AF_UNIX, MSG_DONTWAIT, MSG_WAITALL, SHUT_RD, SOCK_STREAM, socket as Socket

VERSION = 1
HEADER = struct.Struct("<IIIHH")

# The daemon to the worker.
MORE = 0x01  # a body follows, in parts that the worker pulls
BODY = 0x02  # such a part; with MORE there are others
CANCEL = 0x04  # nobody wants the answer to this id any more
BROKEN = 0x08  # the body cannot be had: the client left or broke its framing
QUOTED = 0x10  # PATH_INFO has its % and NUL characters percent-encoded

# The worker to the daemon; MORE too: the answer goes on in another frame.
PULL = 0x02  # asks for the next part of the request's body
RAISED = 0x04  # the application raised before its head was sent
RESET = 0x08  # the answer cannot be completed
BUSY = 0x10  # the answer is complete, the thread is not free before IDLE
IDLE = 0x20  # the thread is free
HELLO = 0x40  # the first frame of a connection

BUFFER = 16 * 1024  # bytes; holds nearly every request as a whole
RETRY_FIRST, RETRY_LAST = 0.05, 1.0  # seconds between attempts to connect
SHORT = 1.0  # seconds; a connection that lasted less may have been refused
REFUSED = 0.2  # seconds to wait after one


class Lost(ConnectionError):
    """The daemon of this connection is gone."""


class Connection:
    """A connection to the daemon, which may be lost and made again.
    number is the thread's, -1 for the control connection."""

    def __init__(self, settings, number):
        self.settings = settings
        self.number = number
        self.sock = None
        self.since = 0.0  # when it was connected
        self.buffer = bytearray(BUFFER)
        self.view = memoryview(self.buffer)
        self.start = self.end = 0  # what of the buffer is unread

    def connect(self, give_up=None):
        """Connects and says hello, as often as it takes. False: the worker
        is to end, or give_up() said so."""
        pause = RETRY_FIRST
        while not self.settings.stopping and not (give_up and give_up()):
            sock = None
            try:
                sock = Socket(AF_UNIX, SOCK_STREAM)
                sock.settimeout(None)  # whatever setdefaulttimeout() the application likes
                sock.connect(self.settings.socket)
                sock.sendall(self.hello())
                self.sock, self.start, self.end = sock, 0, 0
                self.since = time.monotonic()
                return True
            except OSError:
                if sock is not None:
                    sock.close()
            time.sleep(pause)
            pause = min(pause * 2, RETRY_LAST)
        return False

    def hello(self):
        settings = self.settings
        words = (
            "muru-worker", str(VERSION), settings.release, str(settings.worker), str(self.number),
            str(settings.pid), str(threading.get_ident()), "%.6f" % settings.started, settings.token,
        )
        head = "\0".join(words).encode()
        return HEADER.pack(len(head), 0, 0, HELLO, len(words)) + head

    def drop(self):
        """Closes the connection; safe to call at any time."""
        sock, self.sock = self.sock, None
        if sock is not None:
            try:
                sock.close()
            except OSError:
                pass

    def lasted(self):
        """Whether the connection that ended was one to a daemon that knows
        us. If not, it waits, so that a refusal is not answered at once."""
        if time.monotonic() - self.since >= SHORT:
            return True
        if not self.settings.stopping:
            time.sleep(REFUSED)
        return False

    def send(self, data):
        sock = self.sock
        try:
            sock.sendall(data)
        except (OSError, AttributeError):  # AttributeError: dropped
            raise Lost("the daemon is gone") from None

    def receive(self):
        """Waits for a frame and returns (flags, id, head, body): a str in
        latin-1 and bytes. Raises Lost at the end of the connection."""
        self.need(16)
        headlen, bodylen, number, flags, _ = HEADER.unpack_from(self.buffer, self.start)
        size = headlen + bodylen
        if size <= BUFFER - 16:
            self.need(16 + size)
            first = self.start + 16
            middle = first + headlen
            head = str(self.view[first:middle], "latin-1")
            body = bytes(self.view[middle : middle + bodylen]) if bodylen else b""
            self.start = middle + bodylen
            return flags, number, head, body
        self.start += 16
        whole = bytearray(size)
        with memoryview(whole) as view:
            self.read_into(view)
            return flags, number, str(view[:headlen], "latin-1"), bytes(view[headlen:])

    def need(self, size):
        """Waits until size bytes are unread in the buffer."""
        while self.end - self.start < size:
            if self.start == self.end:
                self.start = self.end = 0
            elif self.start + size > BUFFER:
                rest = bytes(self.view[self.start : self.end])
                self.start, self.end = 0, len(rest)
                self.view[: self.end] = rest
            self.end += self.recv(self.view[self.end :] if self.end else self.view)

    def read_into(self, view):
        """Fills all of view."""
        have = min(self.end - self.start, len(view))
        view[:have] = self.view[self.start : self.start + have]
        self.start += have
        while have < len(view):
            have += self.recv(view[have:], MSG_WAITALL)

    def recv(self, view, flags=0):
        sock = self.sock
        try:
            got = sock.recv_into(view, 0, flags)
        except BlockingIOError:
            raise
        except (OSError, AttributeError):
            got = 0
        if not got:
            raise Lost("the daemon is gone")
        return got

    def cancelled(self, number):
        """Whether the daemon has said that nobody wants this answer. It never
        waits."""
        try:
            if self.start == self.end:
                self.start = 0
                self.end = 0
                self.end = self.recv(self.view, MSG_DONTWAIT)
        except BlockingIOError:
            return False
        flags, number_of, _, _ = self.receive()
        return bool(flags & CANCEL) and number_of == number


class Link(Connection):
    """One thread's connection: one request at a time."""

    def __init__(self, settings, number, handle, ready):
        super().__init__(settings, number)
        self.handle = handle
        self.ready = ready
        self.busy = False

    def serve(self):
        """The life of a thread: while the worker lives, it answers the daemon
        that is there. An answer for one that is gone is dropped."""
        while self.connect():
            self.ready.count(self.number)
            try:
                self.answer_requests()
            except Lost:
                pass
            except BaseException:
                # A fault of this runtime. The connection is in an unknown
                # state; with another one the thread is as good as new.
                sys.__excepthook__(*sys.exc_info())
            self.busy = False
            self.drop()
            if self.settings.forked:
                os._exit(0)  # the application forked in a request and did not end the child
            self.lasted()

    def answer_requests(self):
        handle = self.handle
        while True:
            flags, number, head, body = self.receive()
            if flags & (BODY | CANCEL | BROKEN):
                continue  # late: that request was answered meanwhile
            self.busy = True
            handle(self, flags, number, head, body)
            self.busy = False
            if self.settings.stopping:
                return

    def stop(self):
        """Ends the thread once it has answered what it was given. The daemon
        cannot give it more: its next write fails, so it knows that this
        request was not started."""
        sock = self.sock
        if sock is not None and not self.busy:
            try:
                sock.shutdown(SHUT_RD)
            except OSError:
                pass


class Countdown:
    """Calls done once every thread has connected for the first time."""

    def __init__(self, threads, done):
        self.missing = set(range(threads))
        self.lock = threading.Lock()
        self.done = done

    def count(self, number):
        if not self.missing:
            return
        with self.lock:
            self.missing.discard(number)
            last, self.done = (None, self.done) if self.missing else (self.done, None)
        if last is not None:
            last()

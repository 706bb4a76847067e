"""The body of a large request, which the daemon sends as it is read; and
wsgi.file_wrapper."""
import io

from . import link as wire

PART = 64 * 1024  # bytes; the largest part the daemon sends


class BodyBroken(OSError):
    """The rest of the request's body cannot be had: its client left, broke
    the framing or sent too much."""


class PulledBody(io.RawIOBase):
    """Reads a body by asking the daemon for each part, so that only what the
    application reads is ever sent and its memory is one part."""

    def __init__(self, link, number):
        self.link = link
        self.number = number
        self.rest = memoryview(b"")
        self.more = True
        self.broken = None

    def readable(self):
        return True

    def readinto(self, into):
        if not self.rest:
            if self.broken:
                raise BodyBroken(self.broken)
            if not self.more:
                return 0
            self.pull()
        count = min(len(into), len(self.rest))
        into[:count] = self.rest[:count]
        self.rest = self.rest[count:]
        return count

    def pull(self):
        link = self.link
        link.send(wire.HEADER.pack(0, 0, self.number, wire.PULL, 0))
        while True:
            flags, number, _, part = link.receive()
            if number == self.number:
                break
        if flags & (wire.BROKEN | wire.CANCEL):
            self.broken = "the request's body broke off"
            raise BodyBroken(self.broken)
        self.more = bool(flags & wire.MORE)
        self.rest = memoryview(part)

    def end(self):
        """The request is over: nothing can be pulled any more, whoever kept
        wsgi.input."""
        self.link = None
        self.more = False
        self.rest = memoryview(b"")


def open_body(link, number):
    """Returns wsgi.input and what must be ended with the request."""
    raw = PulledBody(link, number)
    return io.BufferedReader(raw, PART), raw


class FileWrapper:
    """wsgi.file_wrapper: the blocks of a file."""

    def __init__(self, file, block=PART):
        self.file = file
        self.block = block
        if hasattr(file, "close"):
            self.close = file.close

    def __iter__(self):
        return self

    def __next__(self):
        data = self.file.read(self.block)
        if data:
            return data
        raise StopIteration

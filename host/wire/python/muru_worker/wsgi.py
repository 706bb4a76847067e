"""One request, as PEP 3333 has it."""
import io
import sys
import time

from . import link as wire
from .body import BodyBroken, FileWrapper, open_body

pack = wire.HEADER.pack

PART = 1024 * 1024  # bytes; longer bodies are sent in several frames
JOIN = 64 * 1024  # bytes; up to here copying is cheaper than a second send
MAX_HEAD = 1024 * 1024  # bytes; the daemon refuses more
CONTROLS = bytes(c for c in range(1, 32) if c != 9) + b"\x7f"
TOKEN = frozenset("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")

SLOW_CLOSE = 0.001  # seconds
FIELD, LENGTH = 1, 2  # kinds of header fields
names = {}  # header name as applications write it: its kind
statuses = {}  # status line: its code


def handler(application, settings):
    """Returns the function that answers one request on a link."""
    base = {
        "SCRIPT_NAME": "",
        "SERVER_SOFTWARE": "muru",
        "wsgi.version": (1, 0),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": settings.threads > 1,
        "wsgi.multiprocess": settings.workers > 1,
        "wsgi.run_once": False,
        "wsgi.input_terminated": True,
        "wsgi.file_wrapper": FileWrapper,
    }

    def handle(link, flags, number, head, body):
        environ = base.copy()
        pairs = iter(head.split("\0"))
        environ.update(zip(pairs, pairs))
        pulled = None
        if flags & wire.MORE:
            environ["wsgi.input"], pulled = open_body(link, number)
        else:
            environ["wsgi.input"] = io.BytesIO(body)
        if flags & wire.QUOTED:
            path = environ["PATH_INFO"]
            environ["PATH_INFO"] = path.replace("%00", "\0").replace("%25", "%")
        try:
            Request(link, number, environ).run_application(application)
        finally:
            if pulled is not None:
                pulled.end()

    return handle


class Request:
    """One request of a thread, until its answer is complete."""

    __slots__ = ("link", "number", "environ", "head", "fields", "left", "bodyless", "sent", "complete", "busy", "since")

    # Whether some application's close() took long. Then an answer says that
    # its thread is BUSY until another frame says IDLE, so that no request is
    # given to a thread that cannot take it. Most never need the extra frame.
    slow_close = False

    def __init__(self, link, number, environ):
        self.link = link
        self.number = number
        self.environ = environ
        self.head = None  # encoded, once start_response was called
        self.fields = 0
        self.left = None  # what Content-Length still wants, None without one
        self.bodyless = False
        self.sent = False  # the head is on its way
        self.complete = False
        self.busy = False  # the daemon was told so, and waits for IDLE
        self.since = None  # when the answer was complete but the iterable not at its end

    def run_application(self, application):
        close = None
        try:
            try:
                iterable = application(self.environ, self.start_response)
                close = getattr(iterable, "close", None)
                kind = type(iterable)
                if (kind is list or kind is tuple) and not self.sent:
                    self.answer_whole(iterable[0] if len(iterable) == 1 else b"".join(iterable))
                else:
                    self.answer_parts(iterable, close)
            except wire.Lost:
                raise
            except BaseException as error:  # SystemExit too: one request, not the worker
                self.failed(error)
        except wire.Lost:
            self.busy = False
            raise
        finally:
            if close is not None:
                self.close(close)

    def start_response(self, status, headers, exc_info=None):
        if exc_info:
            try:
                if self.sent:
                    raise exc_info[1].with_traceback(exc_info[2])
            finally:
                exc_info = None  # a cycle through the frame
        elif self.head is not None:
            raise RuntimeError("start_response was called twice without exc_info")
        self.head, self.fields, self.left, code = encode_head(status, headers)
        self.bodyless = code == 204 or code == 304 or self.environ.get("REQUEST_METHOD") == "HEAD"
        return self.write

    def write(self, data):
        """What start_response returns: sends at once."""
        if type(data) is not bytes:
            data = checked(data)
        if self.bodyless:
            data = b""
        elif self.left is not None and len(data) > self.left:
            data = self.truncated(data)
        if data or not self.sent:
            self.send(data, wire.MORE)

    def answer_whole(self, data):
        """The whole body is there: one frame, unless it is huge. The daemon
        fills in Content-Length."""
        if type(data) is not bytes:
            data = checked(data)
        if self.head is None:
            raise RuntimeError("the application did not call start_response")
        if self.bodyless:
            data = b""
        elif self.left is not None and len(data) != self.left:
            if len(data) < self.left:
                raise too_short(self.left - len(data))
            data = self.truncated(data)
        if len(data) > PART and self.left is None:
            # The daemon sees the length of one frame only, and what has none
            # would be a stream.
            self.head += b"\0Content-Length\0%d" % len(data)
            self.fields += 1
            self.left = len(data)
        self.send(data, 0)

    def answer_parts(self, iterable, close):
        """Each part goes out as it comes. What completes Content-Length is
        the last one."""
        if iterable is None:
            raise TypeError("the application returned None, not an iterable of bytes: is a return missing?")
        for data in iterable:
            if type(data) is not bytes:
                data = checked(data)
            if not data:
                continue
            if self.complete:
                self.complain("sent more than its Content-Length")
                return
            if self.head is None:
                raise RuntimeError("the application did not call start_response")
            if self.bodyless:
                break
            if self.sent and self.link.cancelled(self.number):
                self.reset()
                return
            if self.left is None or len(data) < self.left:
                self.send(data, wire.MORE)
            else:
                self.send(self.truncated(data), self.last(close))
                self.since = time.monotonic()
        if self.complete:
            return
        if self.head is None:
            raise RuntimeError("the application did not call start_response")
        if self.left and not self.bodyless:
            raise too_short(self.left)
        self.send(b"", self.last(close))

    def last(self, close):
        """The flags of the frame that completes the answer."""
        return wire.BUSY if close is not None and Request.slow_close else 0

    def send(self, data, flags):
        """Sends data in one frame, or several if it is huge, with the head if
        that is still to be sent. Without MORE the answer is complete."""
        link, number = self.link, self.number
        head, fields = b"", 0
        if not self.sent:
            head, fields = self.head, self.fields
        size = len(data)
        if self.left is not None and not self.bodyless:
            self.left -= size
        self.sent = True
        if not flags & wire.MORE:
            self.complete = True
            self.busy = flags == wire.BUSY
        if size <= JOIN:
            link.send(pack(len(head), size, number, flags, fields) + head + data)
            return
        view = memoryview(data)
        for at in range(0, size, PART):
            part = view[at : at + PART]
            more = wire.MORE if at + PART < size else flags
            link.send(pack(len(head), len(part), number, more, fields) + head)
            link.send(part)
            head, fields = b"", 0

    def truncated(self, data):
        if len(data) > self.left:
            self.complain("sent more than its Content-Length")
        return data[: self.left] if len(data) > self.left else data

    def close(self, close):
        """Ends the iterable, which may do work of its own after the answer."""
        began = self.since or time.monotonic()
        announced = self.busy
        try:
            close()
        except BaseException as error:
            self.print_error(error, "in close()")
        if time.monotonic() - began > SLOW_CLOSE:
            Request.slow_close = True
        if announced:
            self.link.send(pack(0, 0, self.number, wire.IDLE, 0))

    def failed(self, error):
        """The application raised."""
        if isinstance(error, BodyBroken):
            self.complain(str(error))
        else:
            self.print_error(error, "raised")
        if self.complete:
            return
        if self.sent:
            self.reset()
        else:
            self.complete = True
            self.link.send(pack(0, 0, self.number, wire.RAISED, 0))

    def reset(self):
        self.complete = True
        self.link.send(pack(0, 0, self.number, wire.RESET, 0))

    def name(self):
        environ = self.environ
        return "request %s %s %s" % (
            environ.get("HTTP_X_REQUEST_ID", "-"),
            environ.get("REQUEST_METHOD", "-"),
            environ.get("REQUEST_URI", "-").partition("?")[0],
        )

    def complain(self, what):
        sys.stderr.write("%s: the application %s\n" % (self.name(), what))

    def print_error(self, error, what):
        """Prints the traceback in one piece, from the application's own
        first frame on."""
        at = error.__traceback__
        while at is not None and at.tb_next is not None and at.tb_frame.f_code.co_filename == __file__:
            at = at.tb_next
        try:
            import traceback

            text = "".join(traceback.format_exception(type(error), error, at))
        except BaseException:
            text = "%s\n" % type(error).__name__
        try:
            sys.stderr.write("%s %s\n%s" % (self.name(), what, text))
            sys.stderr.flush()
        except Exception:
            pass  # the application closed stderr


def checked(data):
    """Bytes-like things pass; everything else is the application's mistake."""
    if isinstance(data, (bytes, bytearray, memoryview)):
        return bytes(data)
    raise TypeError("the application's answer must be bytes, not %s" % type(data).__name__)


def too_short(missing):
    return RuntimeError("the answer ended %d bytes before its Content-Length" % missing)


def encode_head(status, headers):
    """Returns the head's bytes, its number of fields, Content-Length or None,
    and the code. What HTTP does not allow raises here, in the application's
    call."""
    code = statuses.get(status) or check_status(status)
    parts = [status]
    length = None
    for name, value in headers:
        kind = names.get(name) or check_name(name)
        if kind == LENGTH:
            length = check_length(value, length)
        parts.append(name)
        parts.append(value)
    fields = len(parts) // 2
    try:
        raw = "\0".join(parts).encode("latin-1")
    except (TypeError, UnicodeEncodeError):
        raw = b""
    if raw.count(b"\0") != fields * 2 or len(raw.translate(None, CONTROLS)) != len(raw):
        raise_bad_value(status, headers)
    if len(raw) > MAX_HEAD or fields > 0xFFFF:
        raise ValueError("the answer's header is too large: %d fields, %d bytes" % (fields, len(raw)))
    return raw, fields, length, code


def check_status(status):
    if type(status) is not str:
        raise TypeError("the status must be a str, not %s" % type(status).__name__)
    digits = status[:3]
    if len(digits) != 3 or not (digits.isascii() and digits.isdigit()) or status[3:4] not in ("", " "):
        raise ValueError("bad status %r: it is three digits, a space and a reason" % status)
    code = int(digits)
    if not 200 <= code <= 599:
        raise ValueError("bad status %r: an answer's is from 200 to 599" % status)
    if len(statuses) < 200:
        statuses[status] = code
    return code


def check_name(name):
    if type(name) is not str:
        raise TypeError("a header name must be a str, not %s" % type(name).__name__)
    if not name or not TOKEN.issuperset(name):
        raise ValueError("bad header name %r" % name)
    kind = LENGTH if name.lower() == "content-length" else FIELD
    if len(names) < 1000:
        names[name] = kind
    return kind


def check_length(value, before):
    if type(value) is not str or not (value.isascii() and value.isdigit()) or len(value) > 18:
        raise ValueError("bad Content-Length %r" % (value,))
    if before is not None and before != int(value):
        raise ValueError("Content-Length is given twice: %d and %s" % (before, value))
    return int(value)


def raise_bad_value(status, headers):
    """Names the value that cannot be sent."""
    for name, value in [("status", status), *headers]:
        if type(value) is not str:
            raise TypeError("the value of %s must be a str, not %s" % (name, type(value).__name__))
        try:
            raw = value.encode("latin-1")
        except UnicodeEncodeError:
            raise ValueError("the value of %s has a character outside of latin-1: %r" % (name, value)) from None
        if "\0" in value or len(raw.translate(None, CONTROLS)) != len(raw):
            raise ValueError("the value of %s has a line break or control character: %r" % (name, value))
    raise ValueError("the header cannot be sent")

"""Small WSGI applications, one for each behaviour that is tested."""
import os
import sys
import threading
import time

held = threading.Lock()


def hello(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain"), ("X-One", "1")])
    return [b"hello\n"]


def echo_environ(environ, start_response):
    """The environ as lines, sorted."""
    lines = []
    for key, value in sorted(environ.items()):
        if isinstance(value, (str, bool, tuple)):
            lines.append("%s=%r" % (key, value))
    start_response("200 OK", [("Content-Type", "text/plain; charset=utf-8")])
    return ["\n".join(lines).encode("utf-8", "surrogateescape")]


def stream(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/event-stream")])
    yield b""
    yield b"one "
    yield b"two "
    yield b"three"


def sized_stream(environ, start_response):
    start_response("200 OK", [("Content-Length", "6")])
    yield b"abc"
    yield b"def"
    print("ran to the end", flush=True)


def empty_stream(environ, start_response):
    start_response("200 OK", [])
    return iter([])


def several(environ, start_response):
    start_response("201 Created", [])
    return [b"a", b"b", b"c"]


def writes(environ, start_response):
    write = start_response("200 OK", [])
    write(b"written ")
    write(b"twice ")
    return [b"and returned"]


def with_body(status):
    def application(environ, start_response):
        start_response(status, [("Content-Length", "5")])
        return [b"12345"]

    return application


ok_with_body = with_body("200 OK")
no_content = with_body("204 No Content")
not_modified = with_body("304 Not Modified")


class Closing:
    def __init__(self, parts, after=None):
        self.parts = iter(parts)
        self.after = after

    def __iter__(self):
        return self

    def __next__(self):
        part = next(self.parts)
        if isinstance(part, BaseException):
            raise part
        return part

    def close(self):
        print("closed", flush=True)
        if self.after:
            self.after()


def closing(environ, start_response):
    start_response("200 OK", [("Content-Length", "2")])
    return Closing([b"ok"])


def close_slow(environ, start_response):
    start_response("200 OK", [("Content-Length", "2")])
    return Closing([b"ok"], lambda: held.acquire() and held.release())


def close_raises(environ, start_response):
    start_response("200 OK", [("Content-Length", "2")])
    return Closing([b"ok"], lambda: 1 / 0)


def raises(environ, start_response):
    raise ValueError("no such mug")  # at the first frame


def raises_after_start(environ, start_response):
    start_response("200 OK", [])
    raise ValueError("too late")


def raises_in_stream(environ, start_response):
    start_response("200 OK", [])
    return Closing([b"part", ValueError("in the middle")])


def exits(environ, start_response):
    sys.exit(3)


def never_starts(environ, start_response):
    return [b"body"]


def returns_none(environ, start_response):
    start_response("200 OK", [])


def returns_str(environ, start_response):
    start_response("200 OK", [])
    return ["text"]


def starts_twice(environ, start_response):
    start_response("200 OK", [])
    start_response("200 OK", [])
    return []


def replaces_head(environ, start_response):
    start_response("200 OK", [("X-Old", "1")])
    try:
        raise KeyError("x")
    except KeyError:
        start_response("500 Oops", [("X-New", "1")], sys.exc_info())
    return [b"sorry"]


def replaces_late(environ, start_response):
    write = start_response("200 OK", [])
    write(b"begun")
    try:
        raise KeyError("too late to replace")
    except KeyError:
        start_response("500 Oops", [], sys.exc_info())
    return [b"never"]


def too_short(environ, start_response):
    start_response("200 OK", [("Content-Length", "10")])
    return Closing([b"abc"])


def too_short_whole(environ, start_response):
    start_response("200 OK", [("Content-Length", "10")])
    return [b"abc"]


def too_long(environ, start_response):
    start_response("200 OK", [("Content-Length", "3")])
    return Closing([b"ab", b"cdef", b"g"])


def too_long_whole(environ, start_response):
    start_response("200 OK", [("Content-Length", "3")])
    return [b"abcdef"]


def head(status="200 OK", *fields):
    def application(environ, start_response):
        start_response(status, list(fields))
        return [b"x"]

    return application


line_break = head("200 OK", ("X-Bad", "one\r\nSet-Cookie: evil=1"))
nul_value = head("200 OK", ("X-Bad", "a\0b"))
bad_name = head("200 OK", ("X Bad", "1"))
name_break = head("200 OK", ("X-Bad\r\nX", "1"))
not_str = head("200 OK", ("X-Bad", 1))
bytes_name = head("200 OK", (b"X-Bad", "1"))
not_latin = head("200 OK", ("X-Bad", "\u20ac"))
bad_status = head("OK")
status_break = head("200 OK\r\nX: y")
interim = head("101 Switching")
two_lengths = head("200 OK", ("Content-Length", "1"), ("content-length", "2"))
bad_length = head("200 OK", ("Content-Length", "-1"))
many_fields = head("200 OK", *[("X-%d" % i, "v" * 200) for i in range(6000)])
hop_fields = head("200 OK", ("Connection", "close"), ("x-two", " a "), ("Keep-Alive", "5"), ("Transfer-Encoding", "chunked"))


def read_all(environ, start_response):
    data = environ["wsgi.input"].read()
    start_response("200 OK", [])
    return [b"%d " % len(data), data[:20]]


def read_lines(environ, start_response):
    body = environ["wsgi.input"]
    first = body.readline()
    start_response("200 OK", [])
    return [first, b"|", body.read(3), b"|", b"".join(body.readlines(1)), b"|", b",".join(body)]


def count_body(environ, start_response):
    import hashlib

    body, size, digest = environ["wsgi.input"], 0, hashlib.md5()
    while True:
        part = body.read(50000)
        if not part:
            break
        size += len(part)
        digest.update(part)
    with open("/proc/self/status") as status:
        peak = [line for line in status if line.startswith("VmHWM")][0].split()[1]
    start_response("200 OK", [("X-Peak-KiB", peak)])
    return [("%d %s" % (size, digest.hexdigest())).encode()]


def ignore_body(environ, start_response):
    start_response("200 OK", [])
    return [b"ignored"]


def keep_input(environ, start_response):
    """Answers with what an earlier request's body still gives."""
    kept = globals().setdefault("kept", [])
    start_response("200 OK", [])
    answer = repr([body.read() for body in kept]).encode()
    kept[:] = [environ["wsgi.input"]]
    return [answer]


def echo_body(environ, start_response):
    body = environ["wsgi.input"]
    start_response("200 OK", [])
    return iter(lambda: body.read(10000), b"")


def big(environ, start_response):
    start_response("200 OK", [])
    return [b"0123456789abcdef" * (5 * 65536 // 2)]


def file(environ, start_response):
    start_response("200 OK", [])
    return environ["wsgi.file_wrapper"](open(__file__, "rb"), 1000)


def prints(environ, start_response):
    print("printed by", environ["PATH_INFO"])
    environ["wsgi.errors"].write("an error\n")
    sys.stdout.write("garbage \0\x01\x02")
    start_response("200 OK", [])
    return [b"ok"]


def forever(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/event-stream")])
    return Closing(iter(lambda: time.sleep(0.005) or b"tick\n", None))


def blocked(environ, start_response):
    print("blocking", flush=True)
    held.acquire()
    held.acquire()  # for ever


def backtracks(environ, start_response):
    import re

    print("matching", flush=True)
    re.match(r"(a+)+$", "a" * 40 + "b")  # for ages


def waits_for_file(environ, start_response):
    """Answers once the file that the request names is there."""
    print("waiting", flush=True)
    while not os.path.exists(environ["PATH_INFO"]):
        time.sleep(0.005)
    start_response("200 OK", [])
    print("finished", flush=True)
    return [b"done"]


def sockets():
    import gc
    import socket

    return [s for s in gc.get_objects() if isinstance(s, socket.socket)]


def closes_sockets(environ, start_response):
    start_response("200 OK", [])
    yield b"begun"
    for s in sockets():
        s.close()
    yield b"more"


def current_socket():
    frame = sys._getframe()
    while "link" not in frame.f_locals:
        frame = frame.f_back
    return frame.f_locals["link"].sock, frame.f_locals["number"]


def answers_twice(environ, start_response):
    import struct

    sock, number = current_socket()
    sock.sendall(struct.pack("<IIIHH", 6, 5, number, 0, 0) + b"200 OKextra")
    start_response("200 OK", [])
    return [b"regular"]


def writes_garbage(environ, start_response):
    sock, _ = current_socket()
    sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    start_response("200 OK", [])
    return [b"regular"]


def injects_header(environ, start_response):
    import struct

    sock, number = current_socket()
    raw = b"200 OK\0X-Bad\0a\r\nSet-Cookie: evil=1"
    sock.sendall(struct.pack("<IIIHH", len(raw), 0, number, 0, 1) + raw)
    time.sleep(60)


def releases(environ, start_response):
    start_response("200 OK", [])
    return [os.environ.get("MURU_RELEASE", "").encode(), b" ", os.environ.get("MURU_WORKER_TOKEN", "none").encode(),
            b" ", os.getcwd().encode(), b" ", repr(sys.argv[1:]).encode(), b" ", sys.path[0].encode()]


def forks(environ, start_response):
    pid = os.fork()
    if pid == 0:
        os.execvp("sleep", ["sleep", "300"]) if environ["PATH_INFO"] == "/exec" else time.sleep(300)
        os._exit(0)
    start_response("200 OK", [])
    return [str(pid).encode()]


async def asgi(scope, receive, send):
    pass


class AsgiObject:
    async def __call__(self, scope, receive, send):
        pass


asgi_object = AsgiObject()


def one_parameter(environ):
    pass


class WsgiClass:
    def __init__(self, environ, start_response):
        start_response("200 OK", [])

    def __iter__(self):
        return iter([b"class"])


class WsgiObject:
    def __call__(self, environ, start_response):
        start_response("200 OK", [])
        return [b"object"]


wsgi_object = WsgiObject()
wsgi_method = wsgi_object.__call__
not_callable = 42


def close_waits(environ, start_response):
    """Its close() ends once the file that the query names is there, and
    takes a moment."""

    def wait():
        time.sleep(0.003)
        while not os.path.exists(environ["QUERY_STRING"]):
            time.sleep(0.002)

    start_response("200 OK", [("Content-Length", "2")])
    return Closing([b"ok"], wait)

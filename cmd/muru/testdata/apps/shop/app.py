"""The application of this package's tests: each path is a behaviour."""
import os
import struct
import sys
import threading
import time

RELEASE = os.environ.get("MURU_RELEASE", "none")


def hello(environ):
    if "STUCK" in os.environ:
        never(environ)
    return b"hello from " + RELEASE.encode() + b"\n"


def slow(environ):
    global inside
    inside += 1
    time.sleep(float(environ["QUERY_STRING"] or 0.05))
    inside -= 1
    return hello(environ)


def never(environ):
    time.sleep(3600)


inside = 0  # requests in slow


def count(environ):
    return b"%d" % inside


def size(environ):
    return b"%d" % len(environ["wsgi.input"].read())


def fail(environ):
    raise KeyError("mug")


def prints_garbage(environ):
    sys.stdout.buffer.write(b"\x00\xff\x1b[2J no text \r\n" + bytes(range(256)) + b"\n")
    sys.stdout.buffer.flush()
    return hello(environ)


def link():
    """The socket of the thread that runs this request, and the request's number."""
    frame = sys._getframe()
    while "link" not in frame.f_locals:
        frame = frame.f_back
    return frame.f_locals["link"].sock, frame.f_locals["number"]


def sends_garbage(environ):
    link()[0].sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    return hello(environ)


def answers_twice(environ):
    sock, number = link()
    sock.sendall(struct.pack("<IIIHH", 6, 6, number, 0, 0) + b"200 OKfirst\n")
    return hello(environ)


def forges_header(environ):
    """Past the runtime, which would not send it."""
    sock, number = link()
    raw = b"200 OK\0X-Mug\0red\r\nSet-Cookie: admin=1"
    sock.sendall(struct.pack("<IIIHH", len(raw), 0, number, 0, 1) + raw)
    time.sleep(3600)


PAGES = {
    "/slow": slow, "/never": never, "/inside": count, "/size": size, "/fail": fail,
    "/prints-garbage": prints_garbage, "/sends-garbage": sends_garbage,
    "/answers-twice": answers_twice, "/forges-header": forges_header,
}


def parts(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        yield b"data: tick\n\n"
        time.sleep(0.05)


def application(environ, start_response):
    path = environ["PATH_INFO"]
    headers = [("Content-Type", "text/plain")]
    if path == "/breaks-header":
        headers.append(("X-Mug", "red\r\nSet-Cookie: admin=1"))
    if path == "/closes-socket":
        sock, _ = link()
        start_response("200 OK", headers)
        return closing(sock)
    if path == "/stream":
        start_response("200 OK", [("Content-Type", "text/event-stream")])
        return parts(float(environ["QUERY_STRING"]))
    body = PAGES.get(path, hello)(environ)
    start_response("200 OK", headers)
    return [body]


def closing(sock):
    """Half an answer; then its connection is closed under it."""
    yield b"begun\n"
    sock.shutdown(2)
    time.sleep(0.1)
    yield b"and gone on\n"


def tick():
    while True:
        print("tick", flush=True)
        time.sleep(0.05)


if "TICK" in os.environ:
    threading.Thread(target=tick, daemon=True).start()

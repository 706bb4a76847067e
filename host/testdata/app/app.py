"""The application that the host's tests run: each path is a behaviour."""
import os
import re
import sys
import threading
import time
from urllib.parse import parse_qs

lock = threading.Lock()
requests = 0


def order(environ):
    with lock:
        lock.acquire()  # the lock it already holds
    return b"never"


def backtrack(environ):
    re.match(r"(a+)+$", "a" * 64 + "b")
    return b"never"


def sleep(environ):
    time.sleep(float(query(environ, "s", "0.2")))
    return b"slept"


def wait_for(environ):
    """Waits until the file named by the query exists; makes another first."""
    if query(environ, "begun", ""):
        open(query(environ, "begun", ""), "w").close()
    while not os.path.exists(query(environ, "file", "")):
        time.sleep(0.005)
    return b"waited"


def pid(environ):
    return str(os.getpid()).encode()


def env(environ):
    return "\n".join("%s=%s" % pair for pair in sorted(os.environ.items())).encode()


def echo(environ):
    return environ["wsgi.input"].read()


def die(environ):
    os._exit(3)


def fail(environ):
    raise ValueError("no mug")


def say(environ):
    print(query(environ, "text", "something"))
    return b"said"


def loud(environ):
    for n in range(int(query(environ, "n", "1000"))):
        print("line %d %s" % (n, "x" * 80))
    return b"said"


def tick(environ):
    for _ in range(50):
        print("tick")
        time.sleep(0.02)
    return b"ticked"


def garbage_out(environ):
    sys.stdout.buffer.write(b"\x00\xff\x1b[2Jbinary\n" + bytes(range(256)) + b"\n")
    sys.stdout.buffer.flush()
    return b"said"


def garbage_wire(environ):
    """Writes into every socket the process has open."""
    for fd in range(3, 64):
        try:
            import stat
            if stat.S_ISSOCK(os.fstat(fd).st_mode):
                os.write(fd, b"HTTP/1.1 200 OK\r\n\r\nthis is not a frame of the protocol")
        except OSError:
            pass
    return b"ok"


def answer_late(environ):
    """Answers once more when the next request is on its way: what a thread
    that was left behind does."""
    import struct

    frame = sys._getframe(1)
    while "link" not in frame.f_locals:
        frame = frame.f_back
    link, number = frame.f_locals["link"], frame.f_locals["number"]
    LATE.append(lambda: link.sock.sendall(struct.pack("<IIIHH", 6, 5, number, 0, 0) + b"200 OKextra"))
    return b"ok"


LATE = []


def then_late(environ):
    LATE.pop()()
    return b"own"


def close_sockets(environ):
    for fd in range(3, 64):
        try:
            import stat
            if stat.S_ISSOCK(os.fstat(fd).st_mode):
                import socket
                socket.socket(fileno=os.dup(fd)).shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
    time.sleep(5)
    return b"ok"


def query(environ, name, default):
    return parse_qs(environ["QUERY_STRING"]).get(name, [default])[0]


def stream(environ):
    parts = int(query(environ, "parts", "1000000"))
    for n in range(parts):
        yield b"part %d\n" % n
        time.sleep(0.01)


paths = {
    "/order": order, "/backtrack": backtrack, "/sleep": sleep, "/wait": wait_for, "/pid": pid, "/env": env,
    "/echo": echo, "/die": die, "/fail": fail, "/say": say, "/loud": loud, "/tick": tick, "/garbage/out": garbage_out,
    "/garbage/wire": garbage_wire, "/garbage/close": close_sockets,
    "/twice/first": answer_late, "/twice/next": then_late,
}


def application(environ, start_response):
    path = environ["PATH_INFO"]
    if path == "/stream":
        start_response("200 OK", [("Content-Type", "text/event-stream")])
        return stream(environ)
    if path == "/big":
        size = int(query(environ, "n", "1000000"))
        start_response("200 OK", [("Content-Length", str(size))])
        return (b"x" * 10000 for _ in range(size // 10000))
    body = paths[path](environ) if path in paths else b"hello from " + path.encode()
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]

"""Applications inside the standard library's validator, which raises when a
server does not keep to PEP 3333."""
import multiprocessing
from wsgiref.validate import validator


@validator
def whole(environ, start_response):
    size = len(environ["wsgi.input"].read(1000000))
    environ["wsgi.errors"].write("seen\n")
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "5")])
    return [b"%05d" % size]


@validator
def parts(environ, start_response):
    write = start_response("200 OK", [("Content-Type", "text/plain")])
    write(b"a")
    return iter([b"b", b"c"])


def double(number):
    return number * 2


def spawns(environ, start_response):
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        answer = pool.map(double, [21])
    start_response("200 OK", [])
    return [repr(answer).encode()]


def application(environ, start_response):
    return globals()[environ["PATH_INFO"].lstrip("/")](environ, start_response)

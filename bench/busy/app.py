"""An application some of whose requests take their time, so that there is
something to wait for when its release drains. Used by two_apps.star."""

import time


def application(environ, start_response):
    if environ["PATH_INFO"] == "/report":
        time.sleep(1)
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "3")])
    return [b"ok\n"]

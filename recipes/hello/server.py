"""A small HTTP server that knows nothing of muru but one variable: $PORT.

muru gives each worker a free port in $PORT and sends it requests there. A
server that prefers a unix socket may listen on the path in $MURU_SOCKET
instead. By hand:  PORT=9000 python3 server.py
"""

import os
import socketserver
from http.server import BaseHTTPRequestHandler

GREETING = os.environ.get("GREETING", "Hello")
NAME = os.environ.get("MURU_RELEASE", "a server of its own")


class Hello(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # connections are kept open
    wbufsize = -1  # head and body leave together, not as two packets

    def do_GET(self):
        body = f"{GREETING} from {NAME}\n".encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_GET

    def log_request(self, code="-", size="-"):
        pass  # the edge keeps the access log; errors are still printed


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128


if __name__ == "__main__":
    with Server(("127.0.0.1", int(os.environ["PORT"])), Hello) as server:
        print(f"listening on port {server.server_address[1]}", flush=True)
        server.serve_forever()

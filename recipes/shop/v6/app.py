"""The shop, v6: the page of an order shows its price."""

import os
import re
import sqlite3
import threading

SCHEMA = """
    CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT NOT NULL, quantity INTEGER NOT NULL);
    INSERT INTO orders VALUES (1, 'teapot', 1), (2, 'kettle', 2), (3, 'mug', 6);
"""
PRICES = {"teapot": 45, "kettle": 60}
ORDER_PAGE = re.compile(r"/orders/([1-9][0-9]{0,8})")
RELEASE = os.environ.get("MURU_RELEASE", "shop")

connections = threading.local()


def database():
    """Return the calling thread's own connection to the shop's orders.

    The orders never change, so each thread keeps them in memory: any number
    of releases, workers and threads may start at once without waiting for one
    another's lock, the source directory may be read-only, and nothing is left
    on disk when the demonstration ends.
    """
    if not hasattr(connections, "orders"):
        orders = sqlite3.connect(":memory:")
        orders.executescript(SCHEMA)
        connections.orders = orders
    return connections.orders


def home():
    """Return the text of the home page."""
    (count,) = database().execute("SELECT count(*) FROM orders").fetchone()
    return f"Welcome to the shop: {count} orders"


def order(number):
    """Return the text of one order's page, None if there is no such order."""
    query = "SELECT item, quantity FROM orders WHERE id = ?"
    for item, quantity in database().execute(query, (number,)):
        total = quantity * PRICES[item]
        return f"Order {number}: {quantity} x {item} for ${total:.2f}"
    return None


def application(environ, start_response):
    """Answer one request; the server calls this (WSGI)."""
    path = environ.get("PATH_INFO", "/")
    order_page = ORDER_PAGE.fullmatch(path)
    text = None
    if path == "/":
        text = home()
    elif path == "/healthz":
        text = "Healthy"
    elif order_page:
        text = order(int(order_page[1]))
    status = "200 OK" if text else "404 Not Found"
    body = f"{text or 'There is no such page'}, served by {RELEASE}\n".encode()
    start_response(status, [
        ("Content-Type", "text/plain; charset=utf-8"),
        ("Content-Length", str(len(body))),
    ])
    return [body]

#!/usr/bin/env python3
"""How much memory does muru take while nothing happens?

    go build -o muru ./cmd/muru && python3 bench/idle_memory.py ./muru

Serves one python release of two workers (the shop), lets some visitors come,
waits until all is quiet, and prints the daemon's RSS and, for each worker, how
much more PSS it has than a bare Python of the same version that has imported
the same application. Two bare ones run at the same time as the two workers, so
that what can be shared is shared by all four alike. Linux only. Ends with
status 1 if the daemon has more than 40 MiB or a worker 12 MiB more than bare.
"""
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SHOP = os.path.join(ROOT, "recipes/shop/v7")
RECIPE = """
deploy("shop", "%s", workers = 2)
print("pids " + " ".join([str(w.pid) for w in workers()]))
""" % SHOP
DAEMON_LIMIT, WORKER_LIMIT = 40, 12  # MiB
REQUESTS = 200


def memory(pid, field):
    """Return a field of a process's smaps_rollup in MiB."""
    with open("/proc/%d/smaps_rollup" % pid) as rollup:
        for line in rollup:
            if line.startswith(field + ":"):
                return int(line.split()[1]) / 1024
    raise LookupError(field)


def bare(python):
    """Start a Python that imports the application, and wait until it has."""
    code = "import app, sys, time; print('imported', flush=True); time.sleep(3600)"
    process = subprocess.Popen([python, "-c", code], cwd=SHOP, stdout=subprocess.PIPE, text=True)
    process.stdout.readline()
    return process


def start(muru, directory):
    """Start muru, and return it, where it serves and its workers' pids."""
    recipe = os.path.join(directory, "idle.star")
    with open(recipe, "w") as file:
        file.write(RECIPE)
    command = [muru, "run", "--listen", "127.0.0.1:0", "--serve", "--state", os.path.join(directory, "state"), recipe]
    daemon = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    url, pids = None, []
    for line in daemon.stdout:
        if line.startswith("pids "):
            pids = [int(pid) for pid in line.split()[1:]]
        if found := re.search(r"serving on (http://\S+)", line):
            url = found[1]
            break
    return daemon, url, pids


def main():
    processes = []
    with tempfile.TemporaryDirectory(prefix="idle-", dir="/tmp") as directory:
        try:
            daemon, url, pids = start(sys.argv[1] if len(sys.argv) > 1 else "muru", directory)
            processes.append(daemon)
            python = os.readlink("/proc/%d/exe" % pids[0])
            bares = [bare(python) for _ in pids]
            processes += bares
            for _ in range(REQUESTS):
                urllib.request.urlopen(url + "/orders/1").read()
            time.sleep(5)
            rss = memory(daemon.pid, "Rss")
            plain = [memory(process.pid, "Pss") for process in bares]
            mean = sum(plain) / len(plain)
            more = [memory(pid, "Pss") - mean for pid in pids]
        finally:
            for process in processes:
                process.send_signal(signal.SIGTERM)
            for process in processes:
                process.wait(20)
    print("daemon: %.1f MiB RSS (limit %d)" % (rss, DAEMON_LIMIT))
    print("bare Python with the app: %s MiB PSS" % ", ".join("%.1f" % p for p in plain))
    print("worker over bare: %s MiB PSS (limit %d)" % (", ".join("%.1f" % m for m in more), WORKER_LIMIT))
    sys.exit(rss > DAEMON_LIMIT or max(more) > WORKER_LIMIT)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""What becomes of the workers of a muru that is killed?

    go build -o muru ./cmd/muru && python3 bench/orphans.py ./muru

Kills a serving muru with SIGKILL. Its two workers, which print a line twenty
times a second, must print on without an error and end by themselves 60 seconds
later, when no muru has come back for them. Takes 70 seconds; ends with status 1
if it went otherwise.
"""
import glob
import os
import subprocess
import sys
import tempfile
import time

APP = '''
import threading, time

def tick():
    while True:
        print("tick")
        time.sleep(0.05)

threading.Thread(target=tick, daemon=True).start()

def application(environ, start_response):
    start_response("200 OK", [])
    return [b"hello"]
'''
RECIPE = '''
deploy("ticking", here("app"), workers = 2)
print("pids " + " ".join([str(w.pid) for w in workers()]))
'''


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def printed(directory):
    """Return all that the workers have printed since the last time it was taken away."""
    text = ""
    for name in glob.glob(directory + "/state/run/*/*/out"):
        with open(name) as file:
            text += file.read()
    return text


def main():
    with tempfile.TemporaryDirectory(prefix="orphans-", dir="/tmp") as directory:
        os.mkdir(directory + "/app")
        for name, text in (("app/app.py", APP), ("r.star", RECIPE)):
            with open(os.path.join(directory, name), "w") as file:
                file.write(text)
        command = [sys.argv[1] if len(sys.argv) > 1 else "muru", "run", "--listen", "127.0.0.1:0", "--serve",
                   "--state", directory + "/state", directory + "/r.star"]
        muru = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        pids = []
        for line in muru.stdout:
            if line.startswith("pids "):
                pids = [int(pid) for pid in line.split()[1:]]
            if "serving on" in line:
                break
        muru.kill()
        muru.wait()
        killed, before = time.monotonic(), len(printed(directory).splitlines())
        while any(map(alive, pids)) and time.monotonic() - killed < 90:
            time.sleep(0.1)
        took = time.monotonic() - killed
        left = [pid for pid in pids if alive(pid)]
        text = printed(directory)
        lines, strange = text.splitlines()[before:], [line for line in text.splitlines() if line != "tick"]
    print("killed muru; workers %s were gone after %.1f s and had printed %d lines more" % (pids, took, len(lines)))
    for line in strange:
        print("  " + line)
    wrong = left or not 55 < took < 70 or len(lines) < 1000 or any("Error" in line for line in strange)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()

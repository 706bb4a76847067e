"""Calls a release's application in this process, as a WSGI server would.

    drive.py RELEASE_DIRECTORY [--threads N --requests M] PATH...

Without --threads: one JSON object a line for each PATH, with status, headers and
body, or raised for an exception. With it: N threads start at the same instant and
request the PATHs M times each; one JSON object counts what came back. A process
that takes more than --patience seconds prints where every thread stands and exits
with status 1.
"""

import argparse
import collections
import faulthandler
import json
import sys
import threading


def call(application, path):
    """Request one path; return what came back as a dict."""
    answer = {}

    def start_response(status, headers, exc_info=None):
        answer.update(status=status, headers=dict(headers))

    environ = {"REQUEST_METHOD": "GET", "SCRIPT_NAME": "", "PATH_INFO": path, "QUERY_STRING": ""}
    try:
        answer["body"] = b"".join(application(environ, start_response)).decode()
    except Exception as error:
        return {"raised": repr(error)}
    return answer


def hammer(application, paths, threads, requests):
    """Request the paths from many threads at once; return {outcome: count}."""
    counts = collections.Counter()
    counting = threading.Lock()
    start = threading.Barrier(threads)

    def work():
        mine = collections.Counter()
        start.wait()
        for number in range(requests):
            answer = call(application, paths[number % len(paths)])
            mine[answer.get("status") or answer["raised"]] += 1
        with counting:
            counts.update(mine)

    workers = [threading.Thread(target=work) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return counts


if __name__ == "__main__":
    flags = argparse.ArgumentParser()
    flags.add_argument("release")
    flags.add_argument("paths", nargs="+")
    flags.add_argument("--threads", type=int)
    flags.add_argument("--requests", type=int, default=1)
    flags.add_argument("--patience", type=float, default=60)
    args = flags.parse_args()

    faulthandler.dump_traceback_later(args.patience, exit=True)
    sys.path.insert(0, args.release)
    from app import application

    if args.threads:
        print(json.dumps(hammer(application, args.paths, args.threads, args.requests)))
    else:
        for path in args.paths:
            print(json.dumps(call(application, path)), flush=True)

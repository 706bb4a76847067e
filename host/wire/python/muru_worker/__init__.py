"""The worker side of muru: runs one WSGI application for the daemon.

Started by the daemon as `python .../muru_worker --entry app:application ...`.
Standard library only, and as little of it as possible: what is imported here
stays in the memory of every worker, so rarely needed modules (traceback) are
imported where they are needed.

    __main__.py  settings, order of start and end, signals
    link.py      frames, connections, the loop of a thread
    wsgi.py      one request: environ, start_response, the answer
    body.py      wsgi.input of a large request, wsgi.file_wrapper
    control.py   the main connection: ready, failed, stacks, exit, orphaned
    app.py       finding and checking the application
    stacks.py    where every thread is
"""

# This file must parse under every Python, so that an old one can be told why.
import sys

if sys.version_info < (3, 9):
    sys.stderr.write(
        "muru needs Python 3.9 or newer, and %s is %d.%d\n"
        % ((sys.executable,) + tuple(sys.version_info[:2]))
    )
    sys.exit(1)

import os
import time


class Settings:
    """What the daemon said on the command line, and whether to end."""

    def __init__(self, words, token):
        given = dict(zip(words[::2], words[1::2]))
        self.release = given["--release"]
        self.worker = int(given["--worker"])
        self.workers = int(given["--workers"])
        self.threads = int(given["--threads"])
        self.source = given["--source"]
        self.entry = given["--entry"]
        self.socket = given["--socket"]
        self.stacks = given["--stacks"]
        self.orphan = float(given["--orphan"])
        self.token = token
        self.pid = os.getpid()
        self.started = time.time()
        self.stopping = False
        self.forked = False  # this is a child of the worker, not the worker
        self.bell, self.rope = os.pipe()
        os.set_blocking(self.rope, False)

    def stop(self):
        """Ends the worker; may be called by a signal handler and any thread."""
        self.stopping = True
        try:
            os.write(self.rope, b"!")
        except BlockingIOError:
            pass  # it rings already

    def take_sigterm(self):
        """From here on SIGTERM means: finish, then end. The C part of every
        signal handler writes to the pipe: wait() on a lock would miss the
        signal that comes just before it sleeps."""
        import signal

        signal.set_wakeup_fd(self.rope, warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, lambda number, frame: self.stop())

    def wait(self):
        """Returns when the worker is to end."""
        while not self.stopping:
            os.read(self.bell, 64)


def prepare():
    """Takes the settings and puts the release's directory first on sys.path,
    so that no module of ours can be taken for one of the application's."""
    here = os.path.dirname(os.path.abspath(__file__))
    settings = Settings(sys.argv[1:], os.environ.pop("MURU_WORKER_TOKEN", ""))
    del sys.argv[1:]
    sys.path[:] = [os.path.dirname(here)] + [p for p in sys.path if p != here]
    import muru_worker.app, muru_worker.body, muru_worker.control, muru_worker.link
    import muru_worker.stacks, muru_worker.wsgi  # noqa: all now, while they can be found

    sys.path[0] = settings.source
    os.chdir(settings.source)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(line_buffering=True)  # a file is not, by default
    return settings


def watch_signals(settings):
    import faulthandler
    import signal

    # The daemon decides about Ctrl-C. A handler that does nothing, and not
    # SIG_IGN, which programs started by the application would inherit.
    signal.signal(signal.SIGINT, lambda number, frame: None)
    # SIGTERM keeps its default while the application is imported: there is
    # nothing to finish then. faulthandler's handler is written in C and also
    # works while C code holds the interpreter.
    dump = open(settings.stacks, "ab", buffering=0)
    faulthandler.register(signal.SIGUSR2, file=dump, all_threads=True, chain=False)
    faulthandler.enable()
    return dump  # the registration does not keep it open


def after_fork(settings, links):
    """A forked child must not hold the worker's connections open, nor take
    its signals for the worker's, nor, when the request it was forked in
    returns there too, connect again as the worker."""
    import signal

    def forget():
        settings.stopping = settings.forked = True  # not stop(): the pipe is the worker's
        for link in links:
            link.drop()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    os.register_at_fork(after_in_child=forget)


def end_within(seconds, status):
    """Ends the process even if an exit handler or a thread of the application
    never returns."""
    import threading

    def watchdog():
        time.sleep(seconds)
        os._exit(status)

    threading.Thread(target=watchdog, name="muru-end", daemon=True).start()


def main():
    settings = prepare()
    dump = watch_signals(settings)  # noqa: kept open
    import threading
    from muru_worker import app, control, link, wsgi

    head = control.Control(settings)
    links = [head.connection]
    after_fork(settings, links)
    threading.Thread(target=head.serve, name="muru-control", daemon=True).start()
    application = app.load(settings, head)
    if application is None:
        end_within(5, 1)
        sys.exit(1)

    serve = wsgi.handler(application, settings)
    ready = link.Countdown(settings.threads, head.report_ready)
    threads = []
    for number in range(settings.threads):
        one = link.Link(settings, number, serve, ready)
        links.append(one)
        name = "muru-thread-%d" % number
        threads.append(threading.Thread(target=one.serve, name=name, daemon=True))
    settings.take_sigterm()
    for thread in threads:
        thread.start()

    settings.wait()
    for one in links[1:]:
        one.stop()
    for thread in threads:
        thread.join()
    end_within(10, 0)
    sys.exit(0)


if __name__ == "__main__":
    main()

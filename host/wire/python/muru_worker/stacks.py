"""Where every thread of the process is."""
import os
import sys
import threading

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MOST_FRAMES = 200  # of one thread
MOST_THREADS = 500


def describe(source):
    """Returns flat text: for each thread its ident, name, whether it is the
    one that looks, and the number of its frames; for each frame, innermost
    first, file, line and function."""
    # threading.enumerate() takes a lock that a thread may hold for ever.
    known = {ident: thread.name for ident, thread in list(threading._active.items())}
    words = []
    me = threading.get_ident()
    for ident, frame in list(sys._current_frames().items())[:MOST_THREADS]:
        frames = []
        while frame is not None and len(frames) < 3 * MOST_FRAMES:
            code = frame.f_code
            frames += (relative(code.co_filename, source), str(frame.f_lineno or 0), code.co_name)
            frame = frame.f_back
        words += (str(ident), known.get(ident, ""), "1" if ident == me else "0", str(len(frames) // 3))
        words += frames
    return words


def relative(filename, source):
    for root in (source, HERE):
        if filename.startswith(root.rstrip("/") + "/"):
            return filename[len(root.rstrip("/")) + 1 :]
    return filename

"""Finds the application named MODULE:ATTR and checks that it is WSGI."""
import sys

CO_COROUTINE = 0x80  # inspect has it, and costs more memory than it is worth


class Unusable(Exception):
    """The application cannot be served; the text says why."""


def load(settings, control):
    """Imports the application. When that fails, it prints the traceback,
    tells the daemon and returns None."""
    try:
        application = find(settings.entry, settings.source)
        check(application, settings.entry)
        return application
    except Unusable as error:
        sys.stderr.write("%s\n" % error)
        control.report_failed(str(error))
    except BaseException as error:  # sys.exit() in a module is a failure too
        # Our frames, and the import machinery's, say nothing about the cause.
        at = error.__traceback__
        while at is not None and is_ours(at.tb_frame.f_code.co_filename):
            at = at.tb_next
        error.__traceback__ = at
        sys.__excepthook__(type(error), error, at)  # of SystemExit, too, it prints all
        control.report_failed(last_line(error))
    return None


def is_ours(filename):
    return filename == __file__ or filename.startswith("<frozen importlib")


def last_line(error):
    """The error as the last line of its traceback has it."""
    name = type(error).__qualname__
    text = str(error)
    if isinstance(error, SyntaxError) and error.filename:
        return "%s: %s (%s, line %s)" % (name, error.msg, error.filename, error.lineno)
    return "%s: %s" % (name, text) if text else name


def find(entry, source):
    module, colon, attribute = entry.partition(":")
    if not module or not attribute:
        raise Unusable('entry "%s" is not MODULE:ATTR' % entry)
    try:
        __import__(module)
    except ModuleNotFoundError as error:
        # Only if the very module is missing, or a package it lies in; what it
        # imports itself is a failure of its own.
        if error.name and (module + ".").startswith(error.name + "."):
            raise Unusable("there is no module %s in %s (entry %s)" % (error.name, source, entry)) from None
        raise
    found = sys.modules[module]
    for name in attribute.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            text = "module %s has no attribute %s (entry %s): %s"
            raise Unusable(text % (module, attribute, entry, advice(module))) from None
    return found


def advice(module):
    """Says which entry is meant: one of the names that people give to their
    application, if the module has it."""
    for name in ("application", "app", "wsgi", "wsgi_app", "api", "server"):
        found = getattr(sys.modules[module], name, None)
        try:
            if callable(found) and check(found, name) is None:
                return 'did you mean entry = "%s:%s"' % (module, name)
        except Unusable:
            pass
    return 'entry = "MODULE:ATTR" names the application'


def check(application, entry):
    if not callable(application):
        raise Unusable("%s is not callable: it is of type %s" % (entry, type(application).__name__))
    function = application
    code = getattr(function, "__code__", None)
    if code is None and not isinstance(application, type):
        function = getattr(type(application), "__call__", None)
        code = getattr(function, "__code__", None)
    if code is None:
        return  # a class, or something written in C: the first request tells
    bound = getattr(application, "__self__", None) is not None or function is not application
    wanted = code.co_argcount - (1 if bound else 0)
    required = wanted - len(getattr(function, "__defaults__", None) or ())
    asynchronous = code.co_flags & CO_COROUTINE
    varies = code.co_flags & 0x04  # *args
    if required == 3 or (asynchronous and wanted == 3):
        raise Unusable("%s is an ASGI application: only WSGI is supported in this version" % entry)
    if asynchronous:
        raise Unusable("%s is async: a WSGI application is a plain function" % entry)
    if required > 2 or (wanted < 2 and not varies):
        raise Unusable("%s takes %d parameters: a WSGI application takes 2" % (entry, wanted))

"""Every application of basic, by the request's path."""
import basic


def application(environ, start_response):
    return getattr(basic, environ["PATH_INFO"].lstrip("/"))(environ, start_response)

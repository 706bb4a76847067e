wsgi = "a string is none"


class App:
    def __call__(self, environ, start_response):
        start_response("200 OK", [])
        return [b"hello"]


app = App()

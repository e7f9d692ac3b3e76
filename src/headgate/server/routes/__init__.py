"""One file per kind of thing. A route reads the request, asks the service, and says the answer."""

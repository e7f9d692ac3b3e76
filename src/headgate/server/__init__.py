"""The service: REST with OpenAPI, live events, metrics, over one controller.

Decides what a request means and how an error is said; everything else is the controller's. Never
imports Spark or the command line. Read `app.py` first, then `service.py`, then a file of `routes/`.
"""

"""The documentation as a site: what MkDocs calls while it builds, and the reference.

`mkdocs.yml` names `hooks.py`; read it first. `reference.py` asks the code for its options,
settings, errors, metrics, requests and commands, so no page of the reference can be out of date.
"""

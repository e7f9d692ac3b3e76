"""`headgate serve`, and the commands that talk to a service over its REST API."""

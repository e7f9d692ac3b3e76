"""Workers as processes of this machine, and the connections to them."""

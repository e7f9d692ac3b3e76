"""`headgate node`: the process that runs workers of other machines' controllers on this one."""

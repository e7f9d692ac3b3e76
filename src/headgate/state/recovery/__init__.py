"""How a job gets its state back: phases 1 and 2 of a recovery, and forks."""

"""Systems to compare with, each run in a process of its own. None of them imports Headgate."""
